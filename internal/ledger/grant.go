package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// Allowance is an amount of a resource type for charges with dimensions in a selector.
type Allowance struct {
	ResourceType string
	Selector     Selector
	// Amount may be 0: such an allowance gives nothing and makes the resource type known.
	Amount Amount
}

// Grant gives allowances. Namespace, Name and Generation are for display only.
type Grant struct {
	UID        string
	Namespace  string
	Name       string
	Generation int64
	// ChangedBy is who changed the grant, if known. It is for the record of the change: the ledger does not keep it.
	ChangedBy string
	// Allowances may name a resource type repeatedly; their amounts add up.
	Allowances []Allowance
}

// SetGrant adds a grant, or replaces the one with the same UID. It reports whether the ledger changed. It fails, and
// changes nothing, if the grant is invalid, exceeds a bound of this package, or makes a limit overflow an [Amount].
func (l *Ledger) SetGrant(g Grant) (changed bool, err error) {
	if before, ok := l.grants[g.UID]; ok {
		return l.swapGrants([]Grant{before}, []Grant{g}, GrantBytesMax)
	}
	return l.swapGrants(nil, []Grant{g}, GrantBytesMax)
}

// ReplaceGrants replaces all grants by the given ones and reports whether the ledger changed. It fails like SetGrant,
// and if two grants have the same UID.
func (l *Ledger) ReplaceGrants(grants []Grant) (changed bool, err error) {
	return l.replaceGrants(grants, GrantBytesMax)
}

// NoteRemovals names who removed grants, by UID, for the records of this batch.
func (l *Ledger) NoteRemovals(removedBy map[string]string) { l.removedBy = removedBy }

func (l *Ledger) replaceGrants(grants []Grant, bytesMax int) (changed bool, err error) {
	uids := make(map[string]struct{}, len(grants))
	for i := range grants {
		if _, repeated := uids[grants[i].UID]; repeated {
			return false, fmt.Errorf("%s: its UID is that of another grant", grants[i].describe())
		}
		uids[grants[i].UID] = struct{}{}
	}
	return l.swapGrants(slices.Collect(l.Grants()), grants, bytesMax)
}

// RemoveGrant removes a grant and reports whether there was one.
func (l *Ledger) RemoveGrant(uid string) bool {
	g, ok := l.grants[uid]
	if ok {
		l.deleteGrant(g)
		l.pruneGrant(g)
		l.recordGrants([]Grant{g}, nil)
	}
	return ok
}

// swapGrants replaces some grants of the ledger by others, or changes nothing. It accepts grants with fewer bytes than
// the former ones even beyond the budget.
func (l *Ledger) swapGrants(before, after []Grant, bytesMax int) (changed bool, err error) {
	for i := range after {
		if err := after[i].check(); err != nil {
			return false, fmt.Errorf("%s: %w", after[i].describe(), err)
		}
	}
	if more := grantsSize(after) - grantsSize(before); more > 0 && l.bytes.grants+more > bytesMax {
		return false, fmt.Errorf("the grants of the consumer would take %d bytes in its ledger, at most %d are allowed: merge some of them",
			l.bytes.grants+more, bytesMax)
	}
	if l.hasSameGrants(before, after) {
		return false, nil
	}

	trial := l.Begin()
	for _, g := range before {
		l.deleteGrant(g)
	}
	for _, g := range after {
		if err := l.addGrant(g); err != nil {
			trial.Discard()
			return false, fmt.Errorf("%s: %w", g.describe(), err)
		}
	}
	trial.Keep()

	l.recordGrants(before, after)
	l.pruneGrants(before)
	return true, nil
}

// hasSameGrants reports whether before and after are equal in any order. The ledger has the grants of before.
func (l *Ledger) hasSameGrants(before, after []Grant) bool {
	return len(before) == len(after) && !slices.ContainsFunc(after, func(g Grant) bool {
		have, ok := l.grants[g.UID]
		return !ok || !have.equal(&g)
	})
}

// addGrant adds a grant with a new UID. After an error the ledger has a part of it.
func (l *Ledger) addGrant(g Grant) error {
	for _, a := range g.Allowances {
		account := l.accountOf(a.ResourceType)
		_, known := account.allowances[a.Selector]
		var err error
		switch {
		case a.Amount > 0 && !known && len(account.allowances) == SelectorsMax:
			err = fmt.Errorf("the allowances of %s have more than %d different selectors", a.ResourceType, SelectorsMax)
		case !account.addAllowance(a.Selector, a.Amount):
			err = fmt.Errorf("the allowances of %s add up to more than 2^63-1", a.ResourceType)
		}
		if err != nil {
			return err
		}
	}
	g.Allowances, g.ChangedBy = slices.Clone(g.Allowances), ""
	put(&l.log, l.grants, g.UID, g)
	l.bytes.grants += g.size()
	return nil
}

// deleteGrant removes a grant. The caller prunes its accounts.
func (l *Ledger) deleteGrant(g Grant) {
	l.removeAllowances(g.Allowances)
	drop(&l.log, l.grants, g.UID)
	l.bytes.grants -= g.size()
}

func (l *Ledger) removeAllowances(allowances []Allowance) {
	for _, a := range allowances {
		l.accounts[a.ResourceType].removeAllowance(a.Selector, a.Amount)
	}
}

func (l *Ledger) pruneGrants(grants []Grant) {
	for _, g := range grants {
		l.pruneGrant(g)
	}
}

func (l *Ledger) pruneGrant(g Grant) {
	for _, a := range g.Allowances {
		l.pruneAccount(a.ResourceType)
	}
}

func (g *Grant) check() error {
	if g.UID == "" {
		return fmt.Errorf("its UID is empty")
	}
	if len(g.Allowances) > AllowancesMax {
		return fmt.Errorf("%d allowances, at most %d are allowed", len(g.Allowances), AllowancesMax)
	}
	for i, a := range g.Allowances {
		if !validResourceType(a.ResourceType) {
			return fmt.Errorf("allowance %d: the resource type must have 1 to %d bytes", i, ResourceTypeBytesMax)
		}
		if a.Amount < 0 {
			return fmt.Errorf("allowance %d: the amount of %s is negative: %d", i, a.ResourceType, a.Amount)
		}
	}
	return nil
}

func (g *Grant) equal(h *Grant) bool {
	return g.UID == h.UID && g.Namespace == h.Namespace && g.Name == h.Name &&
		g.Generation == h.Generation && slices.Equal(g.Allowances, h.Allowances)
}

func (g *Grant) describe() string {
	name := g.Name
	if g.Namespace != "" {
		name = g.Namespace + "/" + name
	}
	return "grant " + name + " (UID " + g.UID + ")"
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
