// Package allocationstore keeps the books of ResourceQuotaAllocations, which are their status and their ledgers. All
// that this process does to the books of one allocation goes through one goroutine: it takes everything that has
// queued up while the write before was in flight, decides it in order, and writes the ledger once, with the resource
// version that it read. If another process wrote first, it reads again and decides all of it again. So a check and its
// booking are one compare-and-swap.
//
// It does what package ledgerstore does for consumers, for books of another kind: they follow a watch, so that
// nothing is settled or released one by one, and a refusal has nothing to wait for.
package allocationstore
