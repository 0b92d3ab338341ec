// Package tally adds up the charges of a consumer's granted claims and compares them with its ledger. The settled usage
// is that of policies' claims. After a restore, it also compares the claims of people and services with what the ledger
// has observed of them. It leaves out everything in flight: claims with an unsettled reservation, and released claims
// before their end.
package tally
