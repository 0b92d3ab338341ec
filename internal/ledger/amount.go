package ledger

import "math"

// Amount is a count of base units of a resource type, from 0 to [AmountMax].
type Amount int64

// AmountMax is the largest amount.
const AmountMax Amount = math.MaxInt64

// Add returns a + b. It reports false, and 0, if the sum does not fit or an operand is negative.
func (a Amount) Add(b Amount) (Amount, bool) {
	sum := a + b
	if a < 0 || b < 0 || sum < 0 {
		return 0, false
	}
	return sum, true
}

// Sub returns a - b. It reports false, and 0, if b is larger than a or an operand is negative.
func (a Amount) Sub(b Amount) (Amount, bool) {
	if b < 0 || a < b {
		return 0, false
	}
	return a - b, true
}
