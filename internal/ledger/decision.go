package ledger

import "fmt"

// Code says how a reservation was decided.
type Code uint8

// What a decision can be. All but Admitted are in order of precedence: of those that apply, a
// decision carries the first. The codes from KeyInvalid to ChargeRepeated, for which
// [Code.Invalid] reports true, depend on the request alone: trying again cannot help.
const (
	// Admitted: the reservation is in the books. If its key was there already, nothing but
	// KeyInvalid precedes this.
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
	// Exceeded: the allowances cannot pay for all of it. Decision.Shortages says what is missing.
	Exceeded
	// Overflow: the used and reserved amounts of a resource type would not fit an [Amount]. With
	// Reserve this takes a page that is overdrawn already; a request that is merely huge is
	// Exceeded.
	Overflow
	// BalancesFull: a resource type would have more than [BalancesMax] rows.
	BalancesFull
	// LedgerFull: the ledger would take more than [BytesMax] bytes.
	LedgerFull
	// NotHeld: what an amendment replaces is not in the books. Only Amend and AmendOverdraft decide
	// this, and before Exceeded.
	NotHeld
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
	NotHeld:             "NotHeld",
}

// String returns the name of the code.
func (c Code) String() string {
	if c == 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("Code(%d)", uint8(c))
	}
	return codeNames[c]
}

// Invalid reports whether the request was malformed, so that no books could admit it.
func (c Code) Invalid() bool { return KeyInvalid <= c && c <= ChargeRepeated }

// Decision is the answer to a request to reserve.
type Decision struct {
	Code Code
	// Sequence is that of the reservation, if it was admitted.
	Sequence int64
	// Existing is set if a reservation with this key was in the books already. It was left as it
	// is, even if it has other charges.
	Existing bool
	// Shortages has, if Code is Exceeded, every charge that fell short, in the order of the
	// request. It is empty otherwise.
	Shortages []Shortage
}

// Shortage tells how one charge fell short.
type Shortage struct {
	ResourceType string
	Dimensions   Dimensions
	// Requested is the amount of the charge.
	Requested Amount
	// Used is what is used and reserved of the resource type, whatever the dimensions, without
	// this request.
	Used Amount
	// Limit is the sum of all allowances of the resource type.
	Limit Amount
	// Matching is the part of Limit whose selectors match Dimensions.
	Matching Amount
	// Available is how much of the charge could be paid, counting as taken what the charges
	// before it in the same request could get. It is less than Requested.
	Available Amount
}
