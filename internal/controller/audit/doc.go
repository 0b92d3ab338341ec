// Package audit compares the books of every consumer with the claims that are granted. The two
// always agree unless there is a bug or somebody changed a ledger by hand, so a difference is
// reported loudly: as a metric, an event on the ledger and a line in the log.
//
// Ledgers are listed, and those that agree with the claims as they were listed, with nothing in flight, need no
// further look.
//
// Books are judged only while they are quiet: nothing is reserved and no released claim is
// still there, because only settled usage can be compared. What looks like drift is looked at
// again some seconds later, and counts only if neither the books nor the claims have changed.
//
// Repairs go in the safe direction first. Usage that claims hold and the books lack is charged
// at once. Usage that the books have and no claim holds is given back only after the API
// server's own list of claims has confirmed it. Every repair is a compare-and-swap: it is made
// only while the books still say what was observed.
//
// Looking at a ledger with something in flight also makes this process read what other processes stored, so that
// reservations and releases which they left behind are found by whoever sweeps those.
package audit
