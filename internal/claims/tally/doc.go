// Package tally adds up the charges of a consumer's granted claims and compares them with its ledger. It leaves out
// everything in flight: claims with an unsettled reservation, and released claims before their end.
package tally
