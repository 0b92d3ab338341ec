package bucket

import (
	"cmp"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// ledgerView is the published part of a consumer's ledger at one instant.
type ledgerView struct {
	grants []ledger.Grant
	quotas map[string]quota // by resource type
}

// quota is a consumer's quota of one resource type.
type quota struct {
	// required demands its publication even if there was none before.
	required bool
	account  ledger.Account
	// held is the part of the reserved amount in overdue reservations.
	held ledger.Amount
	// shares are in the order of their dimensions. Each has some.
	shares []share
}

// share is the quota of a dimension set of a resource type.
type share struct {
	ledger.Balance
	limit, available, held ledger.Amount
}

// unused reports whether nothing is in use: an earlier publication is the only reason for this one.
func (s *share) unused() bool { return s.Used == 0 && s.Reserved == 0 && s.Claims == 0 }

// allocated returns the used and reserved amount, without what overdue reservations hold.
func (s *share) allocated() int64 { return int64(s.Used + s.Reserved - s.held) }

// viewOf takes the published quota from a ledger: every resource type in it, and the dimension sets in use or published
// before. With many selectors and dimension sets this takes long, so it reads a snapshot.
//
// Quota in slices is not in use, and neither is that of overdue reservations: nobody can have it, but no object uses
// it.
func viewOf(snapshot *ledger.Ledger, overdue []ledgerstore.InFlight, before map[string]indexEntry) ledgerView {
	for s := range snapshot.Slices() {
		snapshot.DropSlice(s.Holder)
	}
	held := heldIn(snapshot, overdue)

	r := ledgerView{grants: slices.SortedFunc(snapshot.Grants(), byName), quotas: map[string]quota{}}
	for _, resourceType := range snapshot.ResourceTypes() {
		q := quota{required: true, account: snapshot.Account(resourceType), held: held[pair{resourceType: resourceType}]}
		listed := map[ledger.Dimensions]struct{}{}
		add := func(balance ledger.Balance) {
			if _, repeated := listed[balance.Dimensions]; repeated || balance.Dimensions.IsZero() {
				return
			}
			listed[balance.Dimensions] = struct{}{}
			q.shares = append(q.shares, share{
				Balance:   balance,
				limit:     snapshot.Matching(resourceType, balance.Dimensions),
				available: snapshot.Available(resourceType, balance.Dimensions),
				held:      held[pair{resourceType, balance.Dimensions}],
			})
		}

		for _, balance := range snapshot.Balances(resourceType) {
			add(balance)
		}
		for _, d := range before[resourceType].sets {
			add(ledger.Balance{Dimensions: d})
		}
		q.sort()
		r.quotas[resourceType] = q
	}
	return r
}

// byName orders grants for readers.
func byName(a, b ledger.Grant) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

// emptyQuota is the quota of a resource type without a ledger account.
func emptyQuota(before indexEntry) quota {
	q := quota{required: before.needed}
	for _, d := range before.sets {
		q.shares = append(q.shares, share{Balance: ledger.Balance{Dimensions: d}})
	}
	q.sort()
	return q
}

// sets returns the published dimension sets.
func (q *quota) sets() []ledger.Dimensions {
	sets := make([]ledger.Dimensions, 0, len(q.shares))
	for i := range q.shares {
		sets = append(sets, q.shares[i].Dimensions)
	}
	return sets
}

// withoutDimensions returns the amount of requests without dimensions.
func (q *quota) withoutDimensions() int64 {
	rest := int64(q.account.Used + q.account.Reserved - q.held)
	for i := range q.shares {
		rest -= q.shares[i].allocated()
	}
	return rest
}

func (q *quota) sort() {
	slices.SortFunc(q.shares, func(a, b share) int { return a.Dimensions.Compare(b.Dimensions) })
}

// excess removes and returns unused shares until the ledger can hold the rest. So the number of buckets stays bounded
// while dimensions come and go.
func (q *quota) excess() []share {
	over := len(q.shares) - ledger.BalancesMax
	var excess []share
	q.shares = slices.DeleteFunc(q.shares, func(s share) bool {
		if len(excess) >= over || !s.unused() {
			return false
		}
		excess = append(excess, s)
		return true
	})
	return excess
}

// contribution is the amount of a resource type in an allowance of a grant.
type contribution struct {
	grant   *ledger.Grant
	matches func(ledger.Dimensions) bool
	amount  ledger.Amount
}

// contributionsTo returns the contributions of grants to a resource type, in the order of the grants.
func contributionsTo(resourceType string, grants []ledger.Grant) []contribution {
	matchers := map[ledger.Selector]func(ledger.Dimensions) bool{}
	var contributions []contribution
	for i := range grants {
		for _, a := range grants[i].Allowances {
			if a.ResourceType != resourceType {
				continue
			}
			if matchers[a.Selector] == nil {
				matchers[a.Selector] = a.Selector.Matcher()
			}
			contributions = append(contributions, contribution{grant: &grants[i], matches: matchers[a.Selector], amount: a.Amount})
		}
	}
	return contributions
}

// grantRefs returns a reference to each contributing grant, once. The amounts of several allowances of a grant add up.
func grantRefs(contributions []contribution, counts func(contribution) bool) []quotav1alpha1.EffectiveGrantRef {
	var refs []quotav1alpha1.EffectiveGrantRef
	var last *ledger.Grant
	for _, c := range contributions {
		if !counts(c) {
			continue
		}
		if c.grant != last {
			last = c.grant
			refs = append(refs, quotav1alpha1.EffectiveGrantRef{
				Name: c.grant.Name, Namespace: c.grant.Namespace, ObservedGeneration: c.grant.Generation,
			})
		}
		refs[len(refs)-1].Amount += int64(c.amount) // at most the limit, so it fits
	}
	return refs
}

func everyContribution(contribution) bool { return true }

// statusOf returns the status of the bucket of a whole resource type.
func statusOf(account ledger.Account, held ledger.Amount, contributions []contribution) quotav1alpha1.AllowanceBucketStatus {
	status := quotav1alpha1.AllowanceBucketStatus{
		Limit:      int64(account.Limit),
		Allocated:  int64(account.Used + account.Reserved - held),
		Held:       int64(held),
		Available:  int64(account.Available),
		ClaimCount: int32(account.Claims),
	}
	contribute(&status, grantRefs(contributions, everyContribution))
	return status
}

// statusOfShare returns the status of the bucket of a dimension set.
func statusOfShare(s *share, contributions []contribution) quotav1alpha1.AllowanceBucketStatus {
	status := quotav1alpha1.AllowanceBucketStatus{
		Limit:      int64(s.limit),
		Allocated:  s.allocated(),
		Held:       int64(s.held),
		Available:  int64(s.available),
		ClaimCount: int32(s.Claims),
	}
	contribute(&status, grantRefs(contributions, func(c contribution) bool { return c.matches(s.Dimensions) }))
	return status
}

func contribute(status *quotav1alpha1.AllowanceBucketStatus, refs []quotav1alpha1.EffectiveGrantRef) {
	status.GrantCount = int32(len(refs))
	for _, ref := range refs {
		status.ContributingGrantRefs = append(status.ContributingGrantRefs, quotav1alpha1.ContributingGrantRef{
			Name: ref.Name, Amount: ref.Amount, LastObservedGeneration: ref.ObservedGeneration,
		})
	}
}
