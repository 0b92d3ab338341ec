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
//   - balances: for each distinct set of [Dimensions], the amount observed, the amount held by reservations and,
//     without dimensions, the amount in slices. The sum is the demand of the set.
//
// The ledger admits a reservation whole or not at all. The reservation holds its charges until an observation decides
// it, or the caller cancels it.
//
// A [Slice] is quota held by one process ahead of demand, to admit requests without a write.
//
// # Observed demand
//
// What a consumer uses follows from the objects that exist. An observer that watches them tells the ledger what they
// demand, see [Ledger.Observe]. The demand of an account then is
//
//	observed + pending + slices
//
// where a pending request is a reservation with [Awaited]. These are the rules:
//
//  1. Newer only: observed demand changes only to that of a later [Basis].
//  2. One write: the step that takes over an observation ends exactly the pending requests that it decides. A create is
//     decided once its object has appeared or was deleted. An update is decided once its object has a later version
//     than the one under review, or was deleted.
//  3. Late is safe: any other pending request ends once the observer knows that it has ended and has no effect, see
//     [Visibility]. The caller must not end it otherwise.
//  4. Admission compares with limits - observed - pending - slices of others. Demand may exceed the limits, because
//     some objects are created without a review. Such a consumer can only shrink.
//  5. A denial is true: the caller denies only by a ledger with an observation as recent as the request, see [Uptake].
//  6. Any crash: the slice of a process that has died covers what the process admitted until all of that is observed,
//     see [Ledger.EndSlice]. And a process that does not know whether its write succeeded may do the same again: the
//     slice goes on covering what is not recorded, see [Ledger.EndInSlice].
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
// # Trials
//
// Operations between [Ledger.Begin] and [Trial.Discard] leave no trace. That is how a dry run asks what would be, and
// how several reservations are admitted together or not at all.
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
// of the flow back, and the flow tries unpaid demand again. Changed allowances discard the flow; the next decision to
// need it builds it from the balances. All bounds are constants of this package: a flow stays small however hostile its
// input.
//
// # Arithmetic
//
// An [Amount] never wraps. The limit of a type, and its demand, fit an int64 at all times: an operation against this
// rule fails and changes nothing.
package ledger
