package ledger

import "math/bits"

// Total is a sum of amounts. It holds more than one of them can. The zero value is 0.
type Total struct{ high, low uint64 }

// Plus returns the total with an amount added.
func (t Total) Plus(a Amount) Total {
	low, carry := bits.Add64(t.low, uint64(a), 0)
	return Total{t.high + carry, low}
}

// Minus returns the total without an amount that was added to it.
func (t Total) Minus(a Amount) Total {
	low, borrow := bits.Sub64(t.low, uint64(a), 0)
	return Total{t.high - borrow, low}
}

// Amount returns the total, or [AmountMax] if it is more.
func (t Total) Amount() Amount {
	if t.high > 0 || t.low > uint64(AmountMax) {
		return AmountMax
	}
	return Amount(t.low)
}
