package ledger

import "math"

// Amount is a count of base units of a resource type, from 0 to [AmountMax].
type Amount int64

// AmountMax is the largest amount: a sum beyond it is an error, never a wrapped value.
const AmountMax Amount = math.MaxInt64

// Add returns a + b. It returns 0 and false if the sum does not fit or an operand is negative.
func (a Amount) Add(b Amount) (Amount, bool) {
	sum := a + b
	if a < 0 || b < 0 || sum < 0 {
		return 0, false
	}
	return sum, true
}

// AddUpTo returns a + b, or [AmountMax] if the sum does not fit. The operands are not negative.
func (a Amount) AddUpTo(b Amount) Amount {
	if sum, ok := a.Add(b); ok {
		return sum
	}
	return AmountMax
}

// Sub returns a - b. It returns 0 and false if b is larger than a or an operand is negative.
func (a Amount) Sub(b Amount) (Amount, bool) {
	if b < 0 || a < b {
		return 0, false
	}
	return a - b, true
}
