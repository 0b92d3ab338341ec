// Package model is the reference that the ledger is tested against: the same operations, written
// to be obviously right and as slow as that takes. It keeps grants, usage and reservations in
// plain collections, adds them up anew for every question, counts in big integers, and decides
// with the formula of the minimum cut over all sets of selectors instead of a flow.
//
// The bounds on counts of rows, selectors and grants are not modelled. Only tests import this
// package. It takes nothing from the ledger but its types, their order, and whether a selector matches.
package model

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/ledger"
)

// Model is the books of one consumer.
type Model struct {
	sequence     int64
	grants       map[string]ledger.Grant
	used         map[kind]usage
	reservations map[string]ledger.Reservation
	released     map[string]bool
}

// kind is what charges that add up have in common.
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

// New returns empty books.
func New() *Model {
	return &Model{
		grants:       map[string]ledger.Grant{},
		used:         map[kind]usage{},
		reservations: map[string]ledger.Reservation{},
		released:     map[string]bool{},
	}
}

// Reserve enters a reservation if it can be paid.
func (m *Model) Reserve(r ledger.Reservation) ledger.Decision {
	d := m.screen(r)
	if d.Code == 0 {
		d = m.decide(r.Charges)
		if d.Code == ledger.Admitted {
			d.Sequence = m.enter(r)
		}
	}
	return d
}

// Check decides charges without entering them.
func (m *Model) Check(charges []ledger.Charge) ledger.Decision {
	if code := flaw(charges); code != 0 {
		return ledger.Decision{Code: code}
	}
	return m.decide(charges)
}

// Adopt enters a reservation whether or not it can be paid.
func (m *Model) Adopt(r ledger.Reservation) ledger.Decision {
	d := m.screen(r)
	switch {
	case d.Code != 0:
		return d
	case m.overflows(r.Charges):
		return ledger.Decision{Code: ledger.Overflow}
	default:
		return ledger.Decision{Code: ledger.Admitted, Sequence: m.enter(r)}
	}
}

func (m *Model) screen(r ledger.Reservation) ledger.Decision {
	if r.Key == "" || len(r.Key) > ledger.KeyBytesMax {
		return ledger.Decision{Code: ledger.KeyInvalid}
	}
	if existing, ok := m.reservations[r.Key]; ok {
		return ledger.Decision{Code: ledger.Admitted, Sequence: existing.Sequence, Existing: true}
	}
	if len(r.Claim) > ledger.ClaimBytesMax {
		return ledger.Decision{Code: ledger.ClaimTooLong}
	}
	return ledger.Decision{Code: flaw(r.Charges)}
}

func flaw(charges []ledger.Charge) ledger.Code {
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

// decide adds one charge after the other to the demand and looks by how much more of the whole
// is paid each time.
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
		if more.Cmp(big.NewInt(int64(c.Amount))) < 0 {
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

func (m *Model) enter(r ledger.Reservation) int64 {
	m.sequence++
	r.Sequence = m.sequence
	r.Charges = slices.Clone(r.Charges)
	m.reservations[r.Key] = r
	return r.Sequence
}

// Amend makes an amendment hold by how much the charges of r exceed what is settled, if that can
// be paid.
func (m *Model) Amend(r ledger.Reservation) ledger.Decision { return m.amend(r, m.decide) }

// AdoptAmendment makes it hold that whether or not it can be paid.
func (m *Model) AdoptAmendment(r ledger.Reservation) ledger.Decision {
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

// Exchange replaces what an amendment replaces by other charges.
func (m *Model) Exchange(key string, sequence int64, after []ledger.Charge) bool {
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
	if len(r.Replaces) > 0 || !m.Cancel(key, sequence) {
		return false
	}
	m.use(r.Charges)
	return true
}

// Release takes settled charges out and remembers the claim.
func (m *Model) Release(claimUID string, charges []ledger.Charge) bool {
	if claimUID == "" || m.released[claimUID] {
		return claimUID != ""
	}
	if flaw(charges) != 0 {
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

// ReleaseReserved drops a reservation and remembers the claim.
func (m *Model) ReleaseReserved(claimUID, key string, sequence int64) bool {
	if claimUID == "" {
		return false
	}
	if m.released[claimUID] {
		return true
	}
	after, held := m.without(m.reservations[key].Replaces)
	if !held || !m.Cancel(key, sequence) {
		return false
	}
	m.used = after
	m.released[claimUID] = true
	return true
}

// Forget drops the memory of a claim.
func (m *Model) Forget(claimUID string) bool {
	was := m.released[claimUID]
	delete(m.released, claimUID)
	return was
}

// SetGrant adds or replaces a grant.
func (m *Model) SetGrant(g ledger.Grant) (changed bool, err error) {
	after := maps.Clone(m.grants)
	after[g.UID] = g
	return m.replace(after)
}

// ReplaceGrants replaces all grants.
func (m *Model) ReplaceGrants(grants []ledger.Grant) (changed bool, err error) {
	after := map[string]ledger.Grant{}
	for _, g := range grants {
		after[g.UID] = g
	}
	if len(after) < len(grants) {
		return false, errInvalid
	}
	return m.replace(after)
}

func (m *Model) replace(after map[string]ledger.Grant) (changed bool, err error) {
	limits := map[string]*big.Int{}
	for uid, g := range after {
		if uid == "" {
			return false, errInvalid
		}
		for _, a := range g.Allowances {
			if a.ResourceType == "" || a.Amount < 0 {
				return false, errInvalid
			}
			if limits[a.ResourceType] == nil {
				limits[a.ResourceType] = new(big.Int)
			}
			limits[a.ResourceType].Add(limits[a.ResourceType], big.NewInt(int64(a.Amount)))
		}
	}
	for _, limit := range limits {
		if limit.Cmp(amountMax) > 0 {
			return false, errOverflow
		}
	}
	changed = !maps.EqualFunc(m.grants, after, func(a, b ledger.Grant) bool {
		return a.Namespace == b.Namespace && a.Name == b.Name && a.Generation == b.Generation &&
			slices.Equal(a.Allowances, b.Allowances)
	})
	m.grants = after
	return changed, nil
}

// RemoveGrant drops a grant.
func (m *Model) RemoveGrant(uid string) bool {
	_, ok := m.grants[uid]
	delete(m.grants, uid)
	return ok
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

// Account adds a resource type up.
func (m *Model) Account(resourceType string) ledger.Account {
	var a ledger.Account
	for _, amount := range m.allowances(resourceType) {
		a.Limit += amount
	}
	for k, u := range m.used {
		if k.resourceType == resourceType {
			a.Used += u.amount
			a.Claims += u.claims
		}
	}
	for _, r := range m.reservations {
		for _, c := range r.Charges {
			if c.ResourceType == resourceType {
				a.Reserved += c.Amount
			}
		}
	}
	a.Available = max(0, a.Limit-(a.Used+a.Reserved))
	return a
}

// Available is by how much more would be paid if a dimension set asked for everything.
func (m *Model) Available(resourceType string, d ledger.Dimensions) ledger.Amount {
	demand := m.demand(resourceType)
	before := m.paid(resourceType, demand)
	demand.add(d, math.MaxInt64)
	return ledger.Amount(new(big.Int).Sub(m.paid(resourceType, demand), before).Int64())
}

// ResourceTypes lists what has allowances, usage or reservations.
func (m *Model) ResourceTypes() []string {
	types := map[string]bool{}
	for _, g := range m.grants {
		for _, a := range g.Allowances {
			types[a.ResourceType] = true
		}
	}
	for k, u := range m.used {
		if u != (usage{}) {
			types[k.resourceType] = true
		}
	}
	for _, r := range m.reservations {
		for _, c := range r.Charges {
			types[c.ResourceType] = true
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// Books lists everything in the fixed order of [ledger.Books].
func (m *Model) Books() ledger.Books {
	b := ledger.Books{Sequence: m.sequence, Released: slices.Sorted(maps.Keys(m.released))}
	for _, uid := range slices.Sorted(maps.Keys(m.grants)) {
		b.Grants = append(b.Grants, m.grants[uid])
	}
	for k, u := range m.used {
		if u != (usage{}) {
			b.Used = append(b.Used, ledger.Usage{ResourceType: k.resourceType, Dimensions: k.dimensions, Amount: u.amount, Claims: u.claims})
		}
	}
	slices.SortFunc(b.Used, func(a, b ledger.Usage) int {
		return cmp.Or(strings.Compare(a.ResourceType, b.ResourceType), a.Dimensions.Compare(b.Dimensions))
	})
	b.Reservations = slices.SortedFunc(maps.Values(m.reservations), func(a, b ledger.Reservation) int {
		return cmp.Compare(a.Sequence, b.Sequence)
	})
	return b
}
