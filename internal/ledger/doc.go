// Package ledger decides, for one consumer, whether it may have more of something. It is the pure core of Bursar: no
// clock, no goroutines, no input or output, and only the standard library. The caller persists a [Ledger] and owns it:
// a Ledger is not safe for concurrent use, not even by readers only. Operations are deterministic: the same operations
// on the same [Snapshot], with the same [Types], give the same answers and the same ledger.
//
// Package ledgerstore stores ledgers. Other packages may import this one for its types and for snapshots.
//
// # The ledger
//
// A ledger has an account for every resource type. An account has
//
//   - allowances: amounts from grants, each with a [Selector] over dimensions. The limit of a type is their sum;
//   - balances: for each distinct set of [Dimensions], the amount that settled claims use, the amount that reservations
//     hold and, without dimensions, the amount in slices. The sum is the demand of that set.
//
// A reservation is decided whole or not at all. It holds its charges until it is settled (they become usage), canceled,
// or released. A released claim leaves its UID in the ledger, so that a second release changes nothing.
//
// A [Slice] is quota that one process holds ahead of demand, to admit requests without a write.
//
// # Deciding
//
// An allowance can pay for a charge if its selector matches the charge's dimensions. Each unit of demand needs a unit
// of one such allowance. The largest part of the demand of an account that allowances can pay is a maximum flow from
// dimension sets to allowances; call it paid(demand). A reservation is admitted if, and only if, for every resource
// type
//
//	paid(demand + request) = paid(demand) + request
//
// that is, if the whole request can be paid in addition to the demand that could be paid before. The charges of one
// type are decided together.
//
// While demand fits its limits, paid(demand) equals the demand, and the rule is the same as "everything, old and new,
// can be paid". The form of the rule matters after a limit was lowered below usage. Nothing is evicted then. Unpaid
// demand has priority over any request: had it a path to an allowance, it would already be part of paid(demand). A
// request is still admitted for an unrelated dimension set, if the overdrawn sets cannot use its allowances.
//
// By the duality of flows and cuts, paid(demand) is also the smallest value, over all sets T of allowances, of the
// amount of T plus the demand that some allowance outside of T matches. The reference model in the folder model
// computes that formula literally, from scratch, and shares no arithmetic with this package.
//
// # Counted types
//
// A resource type may be only counted, see [Types]. Its charges are admitted whatever the limit, and the part that the
// allowances cannot pay is overdraft. So they deny nothing of the other types in the same reservation.
//
// # What it costs
//
// If every allowance of a type matches everything, paid(demand) is the smaller of limit and demand, and a decision is
// one comparison. Otherwise the account keeps a maximum flow, and a request searches augmenting paths on top of it,
// breadth first. Most requests find an allowance with free capacity at the first step. Released demand gives its part
// of the flow back, and unpaid demand is tried again. Changed allowances and corrected usage discard the flow; the next
// decision that needs it builds it from the balances. All bounds are constants of this package, so that a flow stays
// small however hostile its input.
//
// # Arithmetic
//
// An [Amount] never wraps. The limit of a type, and its used and reserved amounts together, fit an int64 at all times:
// an operation that would break this fails and changes nothing.
package ledger
