package ledger

import "fmt"

// Code is the result of a decision.
type Code uint8

// The codes. All but Admitted are in order of precedence: a decision has the first applicable code. KeyInvalid to
// ChargeRepeated depend only on the request, so a retry cannot help. [Code.Invalid] reports true for them.
const (
	// Admitted: the ledger has the reservation. For a known key, only KeyInvalid precedes this.
	Admitted Code = iota + 1
	// KeyInvalid: the key is empty or longer than [KeyBytesMax].
	KeyInvalid
	// ClaimTooLong: the claim payload is longer than [ClaimBytesMax].
	ClaimTooLong
	// ChargesMissing: there are no charges.
	ChargesMissing
	// ChargesTooMany: there are more than [ChargesMax] charges.
	ChargesTooMany
	// ResourceTypeInvalid: a resource type is empty or longer than [ResourceTypeBytesMax].
	ResourceTypeInvalid
	// AmountNotPositive: an amount is zero or negative.
	AmountNotPositive
	// ChargeRepeated: two charges have the same resource type and the same dimensions.
	ChargeRepeated
	// Exceeded: the allowances cannot pay for the whole request. Decision.Shortages has the details.
	Exceeded
	// Overflow: the used and reserved amounts of a resource type would not fit an [Amount]. Reserve returns it only for
	// an account with an overdraft: a merely huge request is Exceeded.
	Overflow
	// BalancesFull: a resource type would have more than [BalancesMax] balances.
	BalancesFull
	// LedgerFull: the ledger would take more than [BytesMax] bytes.
	LedgerFull
)

var codeNames = [...]string{
	Admitted:            "Admitted",
	KeyInvalid:          "KeyInvalid",
	ClaimTooLong:        "ClaimTooLong",
	ChargesMissing:      "ChargesMissing",
	ChargesTooMany:      "ChargesTooMany",
	ResourceTypeInvalid: "ResourceTypeInvalid",
	AmountNotPositive:   "AmountNotPositive",
	ChargeRepeated:      "ChargeRepeated",
	Exceeded:            "Exceeded",
	Overflow:            "Overflow",
	BalancesFull:        "BalancesFull",
	LedgerFull:          "LedgerFull",
}

// String returns the name of the code.
func (c Code) String() string {
	if c == 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("Code(%d)", uint8(c))
	}
	return codeNames[c]
}

// Invalid reports whether the request is malformed: no ledger could admit it.
func (c Code) Invalid() bool { return KeyInvalid <= c && c <= ChargeRepeated }

// Decision is the answer to a request to reserve.
type Decision struct {
	Code Code
	// Sequence belongs to the admitted reservation.
	Sequence int64
	// Existing is true if the ledger already had a reservation with this key. The reservation stays as it is, even if its
	// charges differ.
	Existing bool
	// Shortages are the charges beyond the limits, in the order of the request. It is empty unless Code is Exceeded.
	Shortages []Shortage
}

// Shortage describes one charge beyond the limits.
type Shortage struct {
	ResourceType string
	Dimensions   Dimensions
	// Requested is the amount of the charge.
	Requested Amount
	// Used is the used, reserved and sliced amount of the resource type over all dimensions, without this request.
	Used Amount
	// Limit is the sum of all allowances of the resource type.
	Limit Amount
	// Matching is the part of Limit with selectors for Dimensions.
	Matching Amount
	// Available is the payable part of the charge after the earlier charges of the same request. It is less than
	// Requested.
	Available Amount
}
