// Package history holds every revision ever stored of the ledgers against the invariants, while a test disturbs their
// writers.
package history

import (
	"fmt"
	"maps"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Checker receives all revisions of ledgers in their order in storage. It understands the ledgers of policies with
// claims of record, with limits that do not shrink and requests without dimensions.
type Checker struct {
	// Violations have the violated invariant and the revision.
	Violations []string
	// Grants is the number of reservations, by consumer.
	Grants map[string]int

	accounts map[string]*account // by name of the ledger
}

// account is the knowledge of a ledger.
type account struct {
	spec         quotav1alpha1.ConsumerLedgerSpec
	reservations map[int64]*reservation // by sequence, also past ones
}

type reservation struct {
	quotav1alpha1.LedgerReservation
	isGone bool
}

// NewChecker returns a checker that has seen nothing.
func NewChecker() *Checker {
	return &Checker{Grants: map[string]int{}, accounts: map[string]*account{}}
}

type complaint func(format string, arguments ...any)

// Ledger checks a revision of a ledger.
func (c *Checker) Ledger(revision int64, ledger *quotav1alpha1.ConsumerLedger) {
	a := c.accounts[ledger.Name]
	if a == nil {
		a = &account{reservations: map[int64]*reservation{}}
		c.accounts[ledger.Name] = a
	}
	complain := func(format string, arguments ...any) {
		c.Violations = append(c.Violations, fmt.Sprintf("revision %d, consumer %s: %s", revision, ledger.Spec.ConsumerRef.Name, fmt.Sprintf(format, arguments...)))
	}

	before := a.spec
	a.spec = ledger.Spec
	if a.spec.Sequence < before.Sequence {
		complain("the sequence falls from %d to %d", before.Sequence, a.spec.Sequence)
	}
	added := a.reserved(before.Sequence, complain)
	c.Grants[a.spec.ConsumerRef.Name] += len(added)
	a.endGone()
	a.checkObservations(&before, complain)
	a.checkLimits(added, complain)
}

// reserved takes up the new reservations, and returns their keys.
func (a *account) reserved(sequence int64, complain complaint) (added []string) {
	keys := map[string]bool{}
	for _, r := range a.spec.Reservations {
		if keys[r.Key] {
			complain("%s is reserved twice", r.Key)
		}
		keys[r.Key] = true
		known := a.reservations[r.Sequence]
		switch {
		case known == nil:
			if r.Sequence <= sequence || r.Sequence > a.spec.Sequence {
				complain("reservation %d of %s is new, and the sequence goes from %d to %d", r.Sequence, r.Key, sequence, a.spec.Sequence)
			}
			a.reservations[r.Sequence] = &reservation{LedgerReservation: r}
			added = append(added, r.Key)
		case known.isGone:
			complain("reservation %d of %s is there again", r.Sequence, r.Key)
		case known.Key != r.Key || !slices.EqualFunc(known.Charges, r.Charges, equalCharges):
			complain("reservation %d of %s was one of %s, or of another amount", r.Sequence, r.Key, known.Key)
		}
	}
	return added
}

func equalCharges(a, b quotav1alpha1.LedgerCharge) bool {
	return a.ResourceType == b.ResourceType && a.Amount == b.Amount && maps.Equal(a.Dimensions, b.Dimensions)
}

// endGone notes which reservations have ended.
func (a *account) endGone() {
	there := map[int64]bool{}
	for _, r := range a.spec.Reservations {
		there[r.Sequence] = true
	}
	for sequence, r := range a.reservations {
		r.isGone = r.isGone || !there[sequence]
	}
}

// checkObservations checks that observed demand is never negative, and moves only forward.
func (a *account) checkObservations(before *quotav1alpha1.ConsumerLedgerSpec, complain complaint) {
	versions := map[string]int64{}
	for _, o := range before.Observations {
		versions[o.Kind] = o.ObjectsVersion
	}
	for _, o := range a.spec.Observations {
		if o.ObjectsVersion < versions[o.Kind] {
			complain("the observation of %s falls from version %d to %d", o.Kind, versions[o.Kind], o.ObjectsVersion)
		}
		for _, d := range o.Demands {
			if d.Amount < 0 || d.Objects < 1 {
				complain("%d of %s are used by %d objects", d.Amount, d.ResourceType, d.Objects)
			}
		}
	}
}

// checkLimits checks that no new reservation goes beyond a limit.
func (a *account) checkLimits(added []string, complain complaint) {
	limits := map[string]int64{}
	for _, grant := range a.spec.Grants {
		for _, allowance := range grant.Allowances {
			limits[allowance.ResourceType] += allowance.Amount
		}
	}
	charged, isNew := a.charges(added, complain)
	for resourceType := range isNew {
		if charged[resourceType] > limits[resourceType] {
			complain("%d of %s are charged, the limit is %d, and new are %q", charged[resourceType], resourceType, limits[resourceType], added)
		}
	}
}

// charges returns the observed and reserved amount by resource type, and the types of new reservations.
func (a *account) charges(added []string, complain complaint) (sums map[string]int64, isNew map[string]bool) {
	sums, isNew = map[string]int64{}, map[string]bool{}
	for _, o := range a.spec.Observations {
		for _, d := range o.Demands {
			sums[d.ResourceType] += d.Amount
		}
	}
	for _, r := range a.spec.Reservations {
		for _, charge := range r.Charges {
			if charge.Amount <= 0 {
				complain("%s reserves %d of %s", r.Key, charge.Amount, charge.ResourceType)
			}
			sums[charge.ResourceType] += charge.Amount
			isNew[charge.ResourceType] = isNew[charge.ResourceType] || slices.Contains(added, r.Key)
		}
	}
	maps.DeleteFunc(isNew, func(_ string, is bool) bool { return !is })
	return sums, isNew
}
