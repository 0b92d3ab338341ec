package model

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// Amend makes an amendment hold the excess of r.Charges over the settled charges, if the allowances can pay it.
func (m *Model) Amend(r ledger.Reservation) ledger.Decision { return m.amend(r, m.decide) }

// AmendOverdraft is Amend without a limit.
func (m *Model) AmendOverdraft(r ledger.Reservation) ledger.Decision {
	return m.amend(r, func(charges []ledger.Charge) ledger.Decision {
		if m.overflows(charges) {
			return ledger.Decision{Code: ledger.Overflow}
		}
		return ledger.Decision{Code: ledger.Admitted}
	})
}

func (m *Model) amend(r ledger.Reservation, decide func([]ledger.Charge) ledger.Decision) ledger.Decision {
	before, known := m.reservations[r.Key]
	if code := validateAmendment(r, before, known); code != 0 {
		return ledger.Decision{Code: code}
	}
	if known {
		r.Replaces = before.Replaces
	} else if _, held := m.without(r.Replaces); !held {
		return ledger.Decision{Code: ledger.NotHeld}
	}
	more := excess(r.Charges, amounts(r.Replaces, before.Charges))
	reserved := sum(before.Charges, more)
	if len(reserved) > ledger.ChargesMax {
		return ledger.Decision{Code: ledger.ChargesTooMany}
	}
	d := decide(more)
	if d.Code == ledger.Admitted {
		r.Charges = reserved
		if known && len(before.Replaces) == 0 {
			m.withdrawn[before.Sequence] = true
		}
		d.Sequence, d.Existing = m.add(r), known
	}
	return d
}

// validateAmendment returns the error code of an amendment, or 0. If known, before is the reservation of its key.
func validateAmendment(r, before ledger.Reservation, known bool) ledger.Code {
	if r.Key == "" || len(r.Key) > ledger.KeyBytesMax || known && (len(before.Replaces) == 0) != (len(r.Replaces) == 0) {
		return ledger.KeyInvalid
	}
	if len(r.Claim) > ledger.ClaimBytesMax {
		return ledger.ClaimTooLong
	}
	amends := len(r.Replaces) > 0
	if (len(r.Charges) > 0 || !amends) && validateCharges(r.Charges) != 0 {
		return validateCharges(r.Charges)
	}
	if amends {
		return validateCharges(r.Replaces)
	}
	return 0
}

// excess returns the charges minus the held amounts, without zeros.
func excess(charges []ledger.Charge, held map[kind]*big.Int) []ledger.Charge {
	var more []ledger.Charge
	for _, c := range charges {
		k := kind{c.ResourceType, c.Dimensions}
		if amount := new(big.Int).Sub(big.NewInt(int64(c.Amount)), cmp.Or(held[k], new(big.Int))); amount.Sign() > 0 {
			more = append(more, ledger.Charge{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Amount: ledger.Amount(amount.Int64())})
		}
	}
	return more
}

// sum returns the sum of two lists of charges, in the order of their first occurrences.
func sum(a, b []ledger.Charge) []ledger.Charge {
	var sum []ledger.Charge
	all := amounts(a, b)
	for _, c := range slices.Concat(a, b) {
		k := kind{c.ResourceType, c.Dimensions}
		if all[k] != nil {
			sum = append(sum, ledger.Charge{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Amount: ledger.Amount(all[k].Int64())})
			all[k] = nil
		}
	}
	return sum
}

// amounts adds up charges by kind.
func amounts(lists ...[]ledger.Charge) map[kind]*big.Int {
	sums := map[kind]*big.Int{}
	for _, c := range slices.Concat(lists...) {
		k := kind{c.ResourceType, c.Dimensions}
		if sums[k] == nil {
			sums[k] = new(big.Int)
		}
		sums[k].Add(sums[k], big.NewInt(int64(c.Amount)))
	}
	return sums
}

// SettleAmendment replaces the charges of Replaces by after.
func (m *Model) SettleAmendment(key string, sequence int64, after []ledger.Charge) bool {
	r, ok := m.reservations[key]
	if !ok || sequence != 0 && sequence != r.Sequence || len(r.Replaces) == 0 || len(after) > 0 && validateCharges(after) != 0 {
		return false
	}
	used, held := m.without(r.Replaces)
	if !held {
		return false
	}
	before := m.used
	m.used = used
	delete(m.reservations, key)
	if m.overflows(after) {
		m.used, m.reservations[key] = before, r
		return false
	}
	m.use(after)
	return true
}

// without returns the usage minus the charges of a settled claim, if the usage includes them.
func (m *Model) without(charges []ledger.Charge) (after map[kind]usage, held bool) {
	after = maps.Clone(m.used)
	for _, c := range charges {
		k := kind{c.ResourceType, c.Dimensions}
		u := usage{after[k].amount - c.Amount, after[k].claims - 1}
		if u.amount < 0 || u.claims < 0 {
			return nil, false
		}
		after[k] = u
	}
	return after, true
}
