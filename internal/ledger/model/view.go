package model

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/ledger"
)

// Account adds up one resource type.
func (m *Model) Account(resourceType string) ledger.Account {
	var a ledger.Account
	for _, amount := range m.allowances(resourceType) {
		a.Limit += amount
	}
	for _, o := range m.observations {
		for _, d := range o.Demands {
			if d.ResourceType == resourceType {
				a.Used += d.Amount
				a.Claims += d.Objects
			}
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

// Available returns the additional payable amount if a dimension set demanded everything.
func (m *Model) Available(resourceType string, d ledger.Dimensions) ledger.Amount {
	demand := m.demand(resourceType)
	before := m.paid(resourceType, demand)
	demand.add(d, math.MaxInt64)
	return ledger.Amount(new(big.Int).Sub(m.paid(resourceType, demand), before).Int64())
}

// ResourceTypes returns the types with allowances, observed demand or reservations.
func (m *Model) ResourceTypes() []string {
	types := map[string]bool{}
	for _, g := range m.grants {
		for _, a := range g.Allowances {
			types[a.ResourceType] = true
		}
	}
	for _, o := range m.observations {
		for _, d := range o.Demands {
			types[d.ResourceType] = true
		}
	}
	for _, r := range m.reservations {
		for _, c := range r.Charges {
			types[c.ResourceType] = true
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// Snapshot returns the model in the fixed order of [ledger.Snapshot].
func (m *Model) Snapshot() ledger.Snapshot {
	b := ledger.Snapshot{Sequence: m.sequence}
	for _, uid := range slices.Sorted(maps.Keys(m.grants)) {
		b.Grants = append(b.Grants, m.grants[uid])
	}
	for _, name := range slices.Sorted(maps.Keys(m.observations)) {
		o := m.observations[name]
		o.Demands = slices.SortedFunc(slices.Values(o.Demands), func(a, b ledger.Demand) int {
			return cmp.Or(strings.Compare(a.ResourceType, b.ResourceType), a.Dimensions.Compare(b.Dimensions))
		})
		b.Observations = append(b.Observations, o)
	}
	b.Reservations = slices.SortedFunc(maps.Values(m.reservations), func(a, b ledger.Reservation) int {
		return cmp.Compare(a.Sequence, b.Sequence)
	})
	return b
}
