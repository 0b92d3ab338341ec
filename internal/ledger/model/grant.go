package model

import (
	"maps"
	"math/big"
	"slices"

	"github.com/bursar/bursar/internal/ledger"
)

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
