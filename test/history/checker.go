// Package history holds every revision ever stored of the ledgers against the invariants, while a test disturbs their
// writers.
package history

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Checker receives all revisions of ledgers and claims in their order in storage. It understands the ledgers of
// policies on objects that come and go, one claim for each, with limits that do not shrink and requests without
// dimensions. Corrections are violations to it.
type Checker struct {
	// Violations have the violated invariant and the revision.
	Violations []string
	// Grants is the number of reservations, by consumer.
	Grants map[string]int

	accounts map[string]*account // by name of the ledger
	// claims are the sequences of the reservations behind claims, by UID.
	claims map[string]int64
}

// account is the knowledge of a ledger.
type account struct {
	spec         quotav1alpha1.ConsumerLedgerSpec
	reservations map[int64]*reservation // by sequence, also past ones
	settled      map[string]int64       // sequences of certainly settled charges, by key
	released     map[string]bool        // UIDs of claims, also forgotten ones
}

type reservation struct {
	quotav1alpha1.LedgerReservation
	isGone, isReleased bool
	// end is how it ended, unless a release ended it.
	end *end
}

// end is a revision with settled or canceled reservations. The ledger has the number of the settled ones, but does not
// identify them.
type end struct {
	settled, givenBack int64
}

// NewChecker returns a checker that has seen nothing.
func NewChecker() *Checker {
	return &Checker{Grants: map[string]int{}, accounts: map[string]*account{}, claims: map[string]int64{}}
}

// Claim takes up a revision of a claim.
func (c *Checker) Claim(claim *quotav1alpha1.ResourceClaim) {
	if sequence, err := strconv.ParseInt(claim.Annotations[quotav1alpha1.AnnotationReservation], 10, 64); err == nil {
		c.claims[string(claim.UID)] = sequence
	}
}

// Ledger checks a revision of a ledger.
func (c *Checker) Ledger(revision int64, ledger *quotav1alpha1.ConsumerLedger) {
	a := c.accounts[ledger.Name]
	if a == nil {
		a = &account{reservations: map[int64]*reservation{}, settled: map[string]int64{}, released: map[string]bool{}}
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
	c.checkSums(a, &before, a.gone(), complain)
	a.checkLimits(&before, added, complain)
}

type complaint func(format string, arguments ...any)

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

// gone returns the reservations settled or canceled by this revision.
func (a *account) gone() map[int64]*reservation {
	there, gone := map[int64]bool{}, map[int64]*reservation{}
	for _, r := range a.spec.Reservations {
		there[r.Sequence] = true
	}
	for sequence, r := range a.reservations {
		if !r.isGone && !there[sequence] {
			r.isGone = true
			gone[sequence] = r
		}
	}
	return gone
}

// checkSums checks that usage has changed by the settled reservations and the released claims, each once.
func (c *Checker) checkSums(a *account, before *quotav1alpha1.ConsumerLedgerSpec, gone map[int64]*reservation, complain complaint) {
	for sequence, r := range gone {
		if isWithdrawn(&a.spec, sequence) {
			r.end = &end{}
			delete(gone, sequence)
		}
	}
	var given []*reservation // back, of the settled ones
	for _, uid := range a.spec.Released {
		if slices.Contains(before.Released, uid) {
			continue
		}
		if a.released[uid] {
			complain("claim %s is released a second time", uid)
			continue
		}
		a.released[uid] = true
		sequence := c.claims[uid]
		r := a.reservations[sequence]
		if r == nil || r.isReleased {
			complain("claim %s is released, whose reservation %d was never there or is released already", uid, sequence)
			continue
		}
		r.isReleased = true
		if gone[sequence] == nil {
			given = append(given, r)
			if r.end == nil {
				complain("claim %s is given back, whose reservation %d has not ended", uid, sequence)
			} else if r.end.givenBack++; r.end.givenBack > r.end.settled {
				complain("claim %s is given back, whose reservation %d was cancelled, or another that ended with it", uid, sequence)
			}
		}
		delete(gone, sequence) // it has come and gone
	}
	types := map[string]bool{}
	for _, used := range slices.Concat(before.Used, a.spec.Used) {
		types[used.ResourceType] = true
	}
	for _, r := range slices.Concat(slices.Collect(maps.Values(gone)), given) {
		for _, charge := range r.Charges {
			types[charge.ResourceType] = true
		}
	}
	settled := int64(0)
	for resourceType := range types {
		settled = max(settled, checkType(resourceType, before, &a.spec, gone, given, complain))
	}
	how := &end{settled: settled}
	for sequence, r := range gone {
		r.end = how
		if settled == int64(len(gone)) {
			if first := a.settled[r.Key]; first != 0 && !a.reservations[first].isReleased {
				complain("reservation %d charges %s a second time, after %d", sequence, r.Key, first)
			}
			a.settled[r.Key] = sequence
		}
	}
}

// isWithdrawn reports whether a ledger lists a sequence as withdrawn.
func isWithdrawn(ledger *quotav1alpha1.ConsumerLedgerSpec, sequence int64) bool {
	return slices.ContainsFunc(ledger.Withdrawn, func(w quotav1alpha1.LedgerSequenceRange) bool { return w.First <= sequence && sequence <= w.Last })
}

// checkType checks the sums of a resource type, and returns the number of settled reservations among those gone. The
// others were canceled.
func checkType(resourceType string, before, after *quotav1alpha1.ConsumerLedgerSpec, gone map[int64]*reservation, given []*reservation, complain complaint) int64 {
	amountBefore, claimsBefore := sum(before, resourceType)
	amount, claims := sum(after, resourceType)
	var candidates []int64
	for _, r := range gone {
		if charge := r.amount(resourceType); charge > 0 {
			candidates = append(candidates, charge)
		}
	}
	back := int64(0)
	for _, r := range given {
		if charge := r.amount(resourceType); charge > 0 {
			back += charge
			claims++
		}
	}
	settled := claims - claimsBefore
	if settled < 0 || settled > int64(len(candidates)) {
		complain("%d charges of %s were settled, of %d that were reserved", settled, resourceType, len(candidates))
		return settled
	}
	slices.Sort(candidates)
	least, most := int64(0), int64(0)
	for i := range settled {
		least += candidates[i]
		most += candidates[int64(len(candidates))-1-i]
	}
	if added := amount + back - amountBefore; added < least || added > most {
		complain("%d of %s were added by %d charges, want %d to %d", added, resourceType, settled, least, most)
	}
	return settled
}

func (r *reservation) amount(resourceType string) (amount int64) {
	for _, charge := range r.Charges {
		if charge.ResourceType == resourceType {
			amount += charge.Amount
		}
	}
	return amount
}

func sum(spec *quotav1alpha1.ConsumerLedgerSpec, resourceType string) (amount, claims int64) {
	for _, used := range spec.Used {
		if used.ResourceType == resourceType {
			amount += used.Amount
			claims += used.Claims
		}
	}
	return amount, claims
}

// checkLimits checks that nothing is negative, and that no charge goes beyond a limit. It permits usage beyond a
// reduced limit as long as the usage does not grow. added are the keys of the new reservations.
func (a *account) checkLimits(before *quotav1alpha1.ConsumerLedgerSpec, added []string, complain complaint) {
	for _, used := range a.spec.Used {
		if used.Amount < 0 || used.Claims < 0 {
			complain("%d of %s are used by %d claims", used.Amount, used.ResourceType, used.Claims)
		}
	}
	limits := map[string]int64{}
	for _, grant := range a.spec.Grants {
		for _, allowance := range grant.Allowances {
			limits[allowance.ResourceType] += allowance.Amount
		}
	}
	charged, was := charges(&a.spec, complain), charges(before, func(string, ...any) {})
	for resourceType, amount := range charged {
		if amount > limits[resourceType] && amount > was[resourceType] {
			complain("%d of %s are charged, the limit is %d, and new are %q", amount, resourceType, limits[resourceType], added)
		}
	}
}

// charges is the used and reserved amount by resource type.
func charges(spec *quotav1alpha1.ConsumerLedgerSpec, complain complaint) map[string]int64 {
	sums := map[string]int64{}
	for _, used := range spec.Used {
		sums[used.ResourceType] += used.Amount
	}
	for _, r := range spec.Reservations {
		for _, charge := range r.Charges {
			if charge.Amount <= 0 {
				complain("%s reserves %d of %s", r.Key, charge.Amount, charge.ResourceType)
			}
			sums[charge.ResourceType] += charge.Amount
		}
	}
	return sums
}
