// Package ledger decides, for one consumer, whether it may have more of something. It is the
// pure core of Bursar: no clock, no goroutines, no input or output, and nothing but the standard
// library. Whoever persists a [Ledger] owns it; a Ledger is not safe for concurrent use, not
// even by readers alone. Operations are deterministic: the same operations on the same [Snapshot]
// give the same answers and the same books.
//
// # The books
//
// A ledger has a page for every resource type. On it stand
//
//   - allowances: amounts that grants give, each with a [Selector] over dimensions. The limit of
//     a type is their sum;
//   - rows: for each distinct set of [Dimensions], how much is used by settled claims and how
//     much is held by reservations. The two together are the demand of that set.
//
// A reservation is decided whole or not at all. It holds its charges until it is settled (they
// become usage), canceled, or released. A released claim leaves its UID behind, so that doing it
// again changes nothing.
//
// # Deciding
//
// An allowance can pay for a charge if its selector matches the charge's dimensions. Each unit
// of demand needs a unit of one such allowance. How much of the demand on a page can be paid at
// best is a maximum flow from dimension sets to allowances; call it paid(demand). A reservation
// is admitted if, and only if, for every resource type
//
//	paid(demand + request) = paid(demand) + request
//
// that is, if all of the request can be paid in addition to all that could be paid before.
// Several charges of one type are judged together.
//
// While demand fits its limits, paid(demand) equals the demand, and the rule says no more than
// "everything, old and new, can be paid". The rule earns its form when a limit was lowered below
// what is used. Nothing is evicted then, and demand that nobody pays for has priority over any
// request: had it a way to an allowance, it would already be part of paid(demand). A request for
// an unrelated dimension set, whose allowances the overdrawn ones cannot use, is still admitted.
//
// By the duality of flows and cuts, paid(demand) is also the smallest value, over all sets T of
// allowances, of what T amounts to plus the demand that some allowance outside of T matches. The
// reference model in the folder model computes that formula literally, from scratch, and shares
// no arithmetic with this package.
//
// # What it costs
//
// Where every allowance of a type matches everything, paid(demand) is the smaller of limit and
// demand, and deciding is one comparison. Otherwise the page keeps a maximum flow and a request
// looks for augmenting paths on top of it, breadth first; most find an allowance with free
// capacity at the first step. Demand that goes away gives its part of the flow back, and what
// was unpaid is tried again. Changed allowances and corrected usage discard the flow; the next
// decision that needs it builds it from the rows. All bounds are constants of this package, so
// that a flow stays small however hostile its input.
//
// # Arithmetic
//
// An [Amount] never wraps. The limit of a type, and its used and reserved amounts together, fit
// an int64 at all times: an operation that would break this is refused and changes nothing.
package ledger
