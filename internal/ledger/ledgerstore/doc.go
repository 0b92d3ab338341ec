// Package ledgerstore stores the ledger of each consumer in a ConsumerLedger object, and is the only way to change one.
//
// Each consumer has a committer, a [groupcommit.Group] on the consumer's ledger. The committer decides in one batch all
// operations since the last write began, and acknowledges them with one write. A denial always holds on a ledger
// current at some instant after the request arrived: the committer wrote the batch, read the ledger, or compared its
// version with the stored one.
//
// [Store.Escrow] admits reservations without a write, from a slice: quota held by the ledger for one process ahead of
// demand. A later commit records them.
//
// Housekeeping, such as the observation of new objects, rides along with the next commit, or gets one of its own after
// a delay.
//
// Any number of processes may have a Store on the same objects. Admission and controllers import this package, never
// the reverse.
package ledgerstore
