// Package audit compares the ledger of every consumer with its granted claims. The two agree unless there is a bug or
// an edit of a ledger by hand. So a difference is reported loudly: by a metric, an event on the ledger and a log line.
//
// The audit lists all ledgers. A listed ledger with nothing in flight that agrees with the cached claims needs no
// further read.
//
// What is in flight is left out: claims whose reservation is not settled yet, and released claims that still exist.
// Apparent drift is compared again some seconds later, because the cache may lag. It counts only if the API server's own
// list of claims, made while the ledger did not change, confirms it. A ledger that changes during every list is left to
// the next audit.
//
// Every repair is a compare-and-swap on the observed usage.
//
// The read of a ledger with something in flight also loads writes of other processes, so that the sweeps find
// reservations and releases that those processes left behind.
//
// Only the operator and tests import it.
package audit
