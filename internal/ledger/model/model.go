// Package model is the reference for tests of the ledger: the same operations, written to be obviously right, however
// slow. It keeps grants, usage and reservations in plain collections, and adds them up again for every question. It
// counts in big integers, and decides with the formula of the minimum cut over all sets of selectors instead of a flow.
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
	used         map[kind]usage
	reservations map[string]ledger.Reservation
	released     map[string]bool
}

// kind identifies charges with a common sum.
type kind struct {
	resourceType string
	dimensions   ledger.Dimensions
}

type usage struct {
	amount ledger.Amount
	claims int64
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
		used:         map[kind]usage{},
		reservations: map[string]ledger.Reservation{},
		released:     map[string]bool{},
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

// use adds the charges of a settled claim.
func (m *Model) use(charges []ledger.Charge) {
	for _, c := range charges {
		k := kind{c.ResourceType, c.Dimensions}
		u := m.used[k]
		m.used[k] = usage{u.amount + c.Amount, u.claims + 1}
	}
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

// Settle turns a reservation into usage.
func (m *Model) Settle(key string, sequence int64) bool {
	r := m.reservations[key]
	if !m.Cancel(key, sequence) {
		return false
	}
	m.use(r.Charges)
	return true
}

// Release removes settled charges and records the claim.
func (m *Model) Release(claimUID string, charges []ledger.Charge) bool {
	if claimUID == "" || m.released[claimUID] {
		return claimUID != ""
	}
	if validateCharges(charges) != 0 {
		return false
	}
	after, held := m.without(charges)
	if !held {
		return false
	}
	m.used = after
	m.released[claimUID] = true
	return true
}

// ReleaseReserved drops a reservation and records the claim.
func (m *Model) ReleaseReserved(claimUID, key string, sequence int64) bool {
	if claimUID == "" {
		return false
	}
	if m.released[claimUID] {
		return true
	}
	if !m.Cancel(key, sequence) {
		return false
	}
	m.released[claimUID] = true
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
	clone.grants, clone.used = maps.Clone(m.grants), maps.Clone(m.used)
	clone.reservations, clone.released = maps.Clone(m.reservations), maps.Clone(m.released)
	return &clone
}

// Forget drops the record of a claim.
func (m *Model) Forget(claimUID string) bool {
	was := m.released[claimUID]
	delete(m.released, claimUID)
	return was
}

// SetUsed corrects the usage of one kind.
func (m *Model) SetUsed(u ledger.Usage) (changed bool, err error) {
	if u.ResourceType == "" || u.Amount < 0 || u.Claims < 0 {
		return false, errInvalid
	}
	k := kind{u.ResourceType, u.Dimensions}
	sum := m.demand(u.ResourceType).total()
	sum.Sub(sum, big.NewInt(int64(m.used[k].amount)))
	sum.Add(sum, big.NewInt(int64(u.Amount)))
	if sum.Cmp(amountMax) > 0 {
		return false, errOverflow
	}
	changed = m.used[k] != usage{u.Amount, u.Claims}
	m.used[k] = usage{u.Amount, u.Claims}
	return changed, nil
}
