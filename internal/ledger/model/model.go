// Package model is the reference for tests of the ledger: the same operations, written to be obviously right, however
// slow. It keeps grants, observations and reservations in plain collections, and adds them up again for every question.
// It counts in big integers, and decides with the formula of the minimum cut over all sets of selectors instead of a
// flow.
//
// It does not model the bounds on counts of balances, selectors and grants. It uses the types of package ledger, their
// order, and Selector.Matches, and no other code of it. Only tests import this package.
package model

import (
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

// Model is the ledger of one consumer.
type Model struct {
	// Types knows the counted resource types. Default: none.
	Types ledger.Types

	sequence     int64
	grants       map[string]ledger.Grant
	observations map[string]ledger.Observation
	reservations map[string]ledger.Reservation
}

// kind identifies charges with a common sum.
type kind struct {
	resourceType string
	dimensions   ledger.Dimensions
}

var (
	errInvalid  = errors.New("invalid")
	errOverflow = errors.New("overflow")
	amountMax   = big.NewInt(math.MaxInt64)
)

// New returns an empty ledger.
func New() *Model {
	return &Model{
		grants:       map[string]ledger.Grant{},
		observations: map[string]ledger.Observation{},
		reservations: map[string]ledger.Reservation{},
	}
}

// Reserve adds a reservation if the allowances can pay it.
func (m *Model) Reserve(r ledger.Reservation) ledger.Decision {
	d := m.precheck(r)
	if d.Code == 0 {
		d = m.decide(r.Charges)
		if d.Code == ledger.Admitted {
			d.Sequence = m.add(r)
		}
	}
	return d
}

// Check decides charges without adding them.
func (m *Model) Check(charges []ledger.Charge) ledger.Decision {
	if code := validateCharges(charges); code != 0 {
		return ledger.Decision{Code: code}
	}
	return m.decide(charges)
}

// ReserveOverdraft adds a reservation whether or not the allowances can pay it.
func (m *Model) ReserveOverdraft(r ledger.Reservation) ledger.Decision {
	d := m.precheck(r)
	switch {
	case d.Code != 0:
		return d
	case m.overflows(r.Charges):
		return ledger.Decision{Code: ledger.Overflow}
	default:
		return ledger.Decision{Code: ledger.Admitted, Sequence: m.add(r)}
	}
}

func (m *Model) precheck(r ledger.Reservation) ledger.Decision {
	if r.Key == "" || len(r.Key) > ledger.KeyBytesMax {
		return ledger.Decision{Code: ledger.KeyInvalid}
	}
	if existing, ok := m.reservations[r.Key]; ok {
		return ledger.Decision{Code: ledger.Admitted, Sequence: existing.Sequence, Existing: true}
	}
	if len(r.Claim) > ledger.ClaimBytesMax {
		return ledger.Decision{Code: ledger.ClaimTooLong}
	}
	return ledger.Decision{Code: validateCharges(r.Charges)}
}

func validateCharges(charges []ledger.Charge) ledger.Code {
	if len(charges) == 0 {
		return ledger.ChargesMissing
	}
	if len(charges) > ledger.ChargesMax {
		return ledger.ChargesTooMany
	}
	var badType, badAmount, repeated bool
	seen := map[kind]bool{}
	for _, c := range charges {
		k := kind{c.ResourceType, c.Dimensions}
		badType = badType || c.ResourceType == "" || len(c.ResourceType) > ledger.ResourceTypeBytesMax
		badAmount = badAmount || c.Amount <= 0
		repeated = repeated || seen[k]
		seen[k] = true
	}
	switch {
	case badType:
		return ledger.ResourceTypeInvalid
	case badAmount:
		return ledger.AmountNotPositive
	case repeated:
		return ledger.ChargeRepeated
	}
	return 0
}

// decide adds one charge after the other to the demand and compares the paid part of the whole before and after.
func (m *Model) decide(charges []ledger.Charge) ledger.Decision {
	demands := map[string]demand{}
	var shortages []ledger.Shortage
	for _, c := range charges {
		t := c.ResourceType
		if demands[t] == nil {
			demands[t] = m.demand(t)
		}
		before := m.paid(t, demands[t])
		demands[t].add(c.Dimensions, c.Amount)
		more := new(big.Int).Sub(m.paid(t, demands[t]), before)
		isCounted := m.Types != nil && m.Types.IsCountedOnly(t)
		if more.Cmp(big.NewInt(int64(c.Amount))) < 0 && !isCounted {
			a := m.Account(t)
			shortages = append(shortages, ledger.Shortage{
				ResourceType: t, Dimensions: c.Dimensions, Requested: c.Amount,
				Used: a.Used + a.Reserved, Limit: a.Limit, Matching: m.matching(t, c.Dimensions),
				Available: ledger.Amount(more.Int64()),
			})
		}
	}
	switch {
	case len(shortages) > 0:
		return ledger.Decision{Code: ledger.Exceeded, Shortages: shortages}
	case m.overflows(charges):
		return ledger.Decision{Code: ledger.Overflow}
	}
	return ledger.Decision{Code: ledger.Admitted}
}

func (m *Model) overflows(charges []ledger.Charge) bool {
	for _, c := range charges {
		sum := m.demand(c.ResourceType).total()
		for _, other := range charges {
			if other.ResourceType == c.ResourceType {
				sum.Add(sum, big.NewInt(int64(other.Amount)))
			}
		}
		if sum.Cmp(amountMax) > 0 {
			return true
		}
	}
	return false
}

func (m *Model) add(r ledger.Reservation) int64 {
	m.sequence++
	r.Sequence = m.sequence
	r.Charges = slices.Clone(r.Charges)
	m.reservations[r.Key] = r
	return r.Sequence
}

// Cancel drops a reservation.
func (m *Model) Cancel(key string, sequence int64) bool {
	r, ok := m.reservations[key]
	if !ok || sequence != 0 && sequence != r.Sequence {
		return false
	}
	delete(m.reservations, key)
	return true
}

// Renew gives a reservation a new sequence.
func (m *Model) Renew(key string, sequence int64) (int64, bool) {
	r := m.reservations[key]
	if !m.Cancel(key, sequence) {
		return 0, false
	}
	return m.add(r), true
}

// Clone returns a copy of the model.
func (m *Model) Clone() *Model {
	clone := *m
	clone.grants, clone.observations = maps.Clone(m.grants), maps.Clone(m.observations)
	clone.reservations = maps.Clone(m.reservations)
	return &clone
}

// Observe replaces the demand of a kind, unless it has observed a later version. Nothing is pending.
func (m *Model) Observe(o ledger.Observation) (changed bool, err error) {
	if !isValid(o) {
		return false, errInvalid
	}
	if o.Basis.Objects < m.observations[o.Kind].Basis.Objects {
		return false, nil
	}

	after := m.Clone()
	after.observations[o.Kind] = o
	for _, d := range o.Demands {
		if after.demand(d.ResourceType).total().Cmp(amountMax) > 0 {
			return false, errOverflow
		}
	}
	changed = !maps.Equal(demandsOf(m.observations[o.Kind]), demandsOf(o))
	m.observations = after.observations
	return changed, nil
}

func isValid(o ledger.Observation) bool {
	for _, d := range o.Demands {
		if d.ResourceType == "" || d.Amount < 0 || d.Objects < 1 {
			return false
		}
	}
	return o.Kind != "" && len(demandsOf(o)) == len(o.Demands)
}

func demandsOf(o ledger.Observation) map[kind]ledger.Demand {
	all := map[kind]ledger.Demand{}
	for _, d := range o.Demands {
		all[kind{d.ResourceType, d.Dimensions}] = d
	}
	return all
}
