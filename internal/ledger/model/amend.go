package model

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// Amend makes an amendment hold by how much the charges of r exceed what is settled, if that can
// be paid.
func (m *Model) Amend(r ledger.Reservation) ledger.Decision { return m.amend(r, m.decide) }

// AmendOverdraft makes it hold that whether or not it can be paid.
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
	if r.Key == "" || len(r.Key) > ledger.KeyBytesMax || known && (len(before.Replaces) == 0) != (len(r.Replaces) == 0) {
		return ledger.Decision{Code: ledger.KeyInvalid}
	}
	if len(r.Claim) > ledger.ClaimBytesMax {
		return ledger.Decision{Code: ledger.ClaimTooLong}
	}
	if amends := len(r.Replaces) > 0; (len(r.Charges) > 0 || !amends) && flaw(r.Charges) != 0 {
		return ledger.Decision{Code: flaw(r.Charges)}
	} else if amends && flaw(r.Replaces) != 0 {
		return ledger.Decision{Code: flaw(r.Replaces)}
	}
	if known {
		r.Replaces = before.Replaces
	} else if _, held := m.without(r.Replaces); !held {
		return ledger.Decision{Code: ledger.NotHeld}
	}
	held := amounts(r.Replaces, before.Charges)
	var more, reserved []ledger.Charge
	for _, c := range r.Charges {
		k := kind{c.ResourceType, c.Dimensions}
		lacking := new(big.Int).Sub(big.NewInt(int64(c.Amount)), cmp.Or(held[k], new(big.Int)))
		if lacking.Sign() > 0 {
			more = append(more, ledger.Charge{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Amount: ledger.Amount(lacking.Int64())})
		}
	}
	all := amounts(before.Charges, more)
	for _, c := range slices.Concat(before.Charges, more) {
		k := kind{c.ResourceType, c.Dimensions}
		if all[k] != nil {
			reserved = append(reserved, ledger.Charge{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Amount: ledger.Amount(all[k].Int64())})
			all[k] = nil
		}
	}
	if len(reserved) > ledger.ChargesMax {
		return ledger.Decision{Code: ledger.ChargesTooMany}
	}
	d := decide(more)
	if d.Code == ledger.Admitted {
		r.Charges = reserved
		d.Sequence, d.Existing = m.enter(r), known
	}
	return d
}

// amounts adds charges up by what they have in common.
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

// SettleAmendment replaces what an amendment replaces by other charges.
func (m *Model) SettleAmendment(key string, sequence int64, after []ledger.Charge) bool {
	r, ok := m.reservations[key]
	if !ok || sequence != 0 && sequence != r.Sequence || len(r.Replaces) == 0 || len(after) > 0 && flaw(after) != 0 {
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

// without is the usage without the charges of a settled claim, if they are in it.
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
