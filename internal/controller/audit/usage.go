package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
)

// Usage adds up what claims of one consumer hold, in the order and form of [ledger.Snapshot]. Claims
// that hold nothing are left out. It fails if the sums cannot be counted.
func Usage(held []*claimcache.Claim) ([]ledger.Usage, error) {
	var sums sums
	for _, claim := range held {
		if !holds(claim) {
			continue
		}
		if err := sums.addClaim(claim); err != nil {
			return nil, err
		}
	}
	return sums.usage(), nil
}

// sums adds up what claims hold. The zero value is ready to use.
type sums struct {
	balances map[balanceKey]ledger.Usage
	types    map[string]ledger.Amount
}

func (s *sums) addClaim(claim *claimcache.Claim) error {
	charges, err := claims.Charges(claim.Requests())
	if err == nil {
		err = s.add(charges)
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", claim.NamespacedName, err)
	}
	return nil
}

// add adds the charges of one claim.
func (s *sums) add(charges []ledger.Charge) error {
	if s.balances == nil {
		s.balances, s.types = map[balanceKey]ledger.Usage{}, map[string]ledger.Amount{}
	}
	for _, c := range charges {
		total, ok := s.types[c.ResourceType].Add(c.Amount)
		if !ok {
			return fmt.Errorf("the amounts of %s are too large to count", c.ResourceType)
		}
		s.types[c.ResourceType] = total
		key := balanceKey{c.ResourceType, c.Dimensions}
		u := usageOf(s.balances, key)
		u.Amount += c.Amount // no more than the total of the type
		u.Claims++
		s.balances[key] = u
	}
	return nil
}

// usage returns the sums by resource type and then dimensions.
func (s *sums) usage() []ledger.Usage {
	return slices.SortedFunc(maps.Values(s.balances), func(a, b ledger.Usage) int {
		return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), a.Dimensions.Compare(b.Dimensions))
	})
}

// holds tells whether a claim holds its charges: it was granted, and it was not released, which
// takes the finalizer off a claim that is being deleted.
func holds(claim *claimcache.Claim) bool {
	return claim.State == claimcache.Granted && (claim.Finalizer || !claim.Deleting)
}

// difference is a row in which books and claims disagree.
type difference struct {
	// observed is what the books say and actual what the claims hold. Both are of the same
	// resource type and dimensions.
	observed, actual ledger.Usage
}

// balanceKey is what tells the rows of a consumer apart.
type balanceKey struct {
	resourceType string
	dimensions   ledger.Dimensions
}

func keyOf(u ledger.Usage) balanceKey { return balanceKey{u.ResourceType, u.Dimensions} }

// compare returns every row in which the books differ from what the claims hold, those that
// the books have first. Both are without zeros and without repetitions.
func compare(recorded, held []ledger.Usage) []difference {
	actual := byKey(held)
	var all []difference
	for _, u := range recorded {
		if actual[keyOf(u)] != u {
			all = append(all, difference{observed: u, actual: usageOf(actual, keyOf(u))})
		}
	}
	known := byKey(recorded)
	for _, u := range held {
		if _, ok := known[keyOf(u)]; !ok {
			all = append(all, difference{observed: usageOf(known, keyOf(u)), actual: u})
		}
	}
	return all
}

func byKey(usages []ledger.Usage) map[balanceKey]ledger.Usage {
	balances := make(map[balanceKey]ledger.Usage, len(usages))
	for _, u := range usages {
		balances[keyOf(u)] = u
	}
	return balances
}

// usageOf returns the usage of a row, which is of nothing by no claims if there is none.
func usageOf(balances map[balanceKey]ledger.Usage, key balanceKey) ledger.Usage {
	u := balances[key]
	u.ResourceType, u.Dimensions = key.resourceType, key.dimensions
	return u
}

// charges tells whether the books lack usage. If not, they have too much.
func (d difference) lacksUsage() bool {
	if d.actual.Amount != d.observed.Amount {
		return d.actual.Amount > d.observed.Amount
	}
	return d.actual.Claims > d.observed.Claims
}

func (d difference) String() string {
	name := d.observed.ResourceType
	if !d.observed.Dimensions.IsZero() {
		name += " (" + d.observed.Dimensions.String() + ")"
	}
	return fmt.Sprintf("%s: the books say %d used by %d claims, the claims hold %d by %d",
		name, d.observed.Amount, d.observed.Claims, d.actual.Amount, d.actual.Claims)
}
