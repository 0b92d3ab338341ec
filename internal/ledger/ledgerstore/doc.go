// Package ledgerstore keeps the books of every consumer in ConsumerLedger objects and is the
// only way to change them.
//
// Each consumer has one committer. It takes every operation that queued up while the last
// write was on its way, applies them in arrival order to its copy of the books (a
// [ledger.Ledger]) and writes the result once, on the condition that the stored object still
// has the version that the copy was made from. When that holds, the whole batch is
// acknowledged. When it does not, or when the outcome is unknown, the copy is thrown away, the
// object is read again and the whole batch is decided anew. Every operation is idempotent, so
// deciding it again after a write that did succeed changes nothing.
//
// A refusal is only given on books that were current at some instant after the request
// arrived: either the batch's own write succeeded, or the object was just read, or its version
// was compared with the stored one.
//
// Two kinds of operation exist. Eager ones start a commit at once and wait for it. Lazy ones
// (settling a reservation, forgetting a release) are housekeeping: they ride along with the
// next commit, or get one of their own after a short delay.
//
// Any number of processes may hold a Store on the same objects. It may be imported by
// admission and by controllers; it imports neither.
package ledgerstore
