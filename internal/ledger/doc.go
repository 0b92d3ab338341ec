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
//   - balances: for each distinct set of [Dimensions], the amount used by settled claims, the amount held by
//     reservations and, without dimensions, the amount in slices. The sum is the demand of the set.
//
// The ledger admits a reservation whole or not at all. The reservation holds its charges until the caller settles it
// (they become usage), cancels it or releases it. A released claim leaves its UID in the ledger: a second release
// changes nothing.
//
// A [Slice] is quota held by one process ahead of demand, to admit requests without a write.
//
// # Deciding
//
// An allowance can pay for a charge if its selector matches the charge's dimensions. Each unit of demand needs a unit
// of one such allowance. The largest payable part of the demand of an account is a maximum flow from dimension sets to
// allowances; call it paid(demand). The ledger admits a reservation if, and only if, for every resource type
//
//	paid(demand + request) = paid(demand) + request
//
// In words: the allowances can pay the whole request in addition to the demand paid before. The ledger decides the
// charges of one type together.
//
// While demand fits its limits, paid(demand) equals the demand, and the rule is the same as "the allowances pay
// everything, old and new". The form of the rule matters after a limit fell below usage. Nothing evicts claims then.
// Unpaid demand has priority over any request: had it a path to an allowance, it would already be part of paid(demand).
// The ledger still admits a request for an unrelated dimension set, if the overdrawn sets cannot use its allowances.
//
// By the duality of flows and cuts, paid(demand) is also the smallest value, over all sets T of allowances, of the
// amount of T plus the demand matched by some allowance outside of T. The reference model in the folder model computes
// this formula literally, from scratch, and shares no arithmetic with this package.
//
// # Counted types
//
// A resource type may have a count but no enforced limit, see [Types]. The ledger admits its charges at any limit, and
// the part without allowances is overdraft. So they deny nothing of the other types in the same reservation.
//
// # What it costs
//
// If every allowance of a type matches everything, paid(demand) is the smaller of limit and demand, and a decision is
// one comparison. Otherwise the account keeps a maximum flow, and a request searches augmenting paths on top of it,
// breadth first. Most requests find an allowance with free capacity at the first step. Released demand gives its part
// of the flow back, and the flow tries unpaid demand again. Changed allowances and corrected usage discard the flow;
// the next decision to need it builds it from the balances. All bounds are constants of this package: a flow stays
// small however hostile its input.
//
// # Arithmetic
//
// An [Amount] never wraps. The limit of a type, and its used and reserved amounts together, fit an int64 at all times:
// an operation against this rule fails and changes nothing.
package ledger
