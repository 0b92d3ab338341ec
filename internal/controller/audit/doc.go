// Package audit compares the ledger of every consumer with its granted claims. The two agree unless there is a bug or
// an edit of a ledger by hand. So a difference is reported loudly: by a metric, an event on the ledger and a log line.
//
// The audit lists all ledgers. A listed ledger in agreement with the cached claims, with nothing in flight, needs no
// further read.
//
// The audit leaves out everything in flight: claims with an unsettled reservation, and released claims before their
// end. It compares apparent drift again some seconds later, because the cache may lag. Drift counts only if the API
// server's own list of claims confirms it, and the ledger did not change during the list. If the ledger changes during
// every list, the audit leaves it to the next one.
//
// Every repair is a compare-and-swap on the observed usage.
//
// The read of a ledger with something in flight also loads writes of other processes: then the sweeps find reservations
// and releases left behind by those processes.
package audit
