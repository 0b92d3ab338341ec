// Package audit compares the ledger of every consumer with its granted claims. The two agree unless there is a bug or
// an edit of a ledger by hand. So a difference is reported loudly: by a metric, an event on the ledger and a log line.
//
// The audit lists all ledgers. A listed ledger with nothing in flight that agrees with the cached claims needs no
// further read.
//
// Only quiescent ledgers are compared directly: without reservations and without released claims that still exist,
// because only settled usage can be compared. Apparent drift is compared again some seconds later, and counts only if
// neither the ledger nor the claims have changed.
//
// Repairs go in the safe direction first. Usage of claims that the ledger lacks is charged at once. Usage of the ledger
// without a claim is released only after the API server's own list of claims has confirmed it. Every repair is a
// compare-and-swap on the observed usage.
//
// The read of a ledger with something in flight also loads writes of other processes, so that the sweeps find
// reservations and releases that those processes left behind.
//
// Only the operator and tests import it.
package audit
