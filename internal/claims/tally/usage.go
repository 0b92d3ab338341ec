package tally

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
)

// Usage adds up the charges of one consumer's claims, in the order and form of [ledger.Snapshot]. It leaves out claims
// without charges, and those made from a withdrawn reservation. It fails if the sums overflow.
func Usage(held []*claimcache.Claim, withdrawn ledger.SequenceSet) ([]ledger.Usage, error) {
	var sums sums
	for _, claim := range held {
		if !Holds(claim) || withdrawn.Has(claim.Sequence) {
			continue
		}
		if err := sums.addClaim(claim); err != nil {
			return nil, err
		}
	}
	return sums.usage(), nil
}

// sums adds up the charges of claims. The zero value is ready to use.
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
		u.Amount += c.Amount // at most the total of the type
		u.Claims++
		s.balances[key] = u
	}
	return nil
}

// usage returns the sums by resource type and then dimensions.
func (s *sums) usage() []ledger.Usage { return inOrder(s.balances) }

// inOrder returns balances by resource type and then dimensions.
func inOrder(balances map[balanceKey]ledger.Usage) []ledger.Usage {
	return slices.SortedFunc(maps.Values(balances), func(a, b ledger.Usage) int {
		return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), a.Dimensions.Compare(b.Dimensions))
	})
}

// Holds reports whether the usage of a ledger has the charges of a claim: a policy's claim that is granted and not
// released. A release removes the finalizer of a claim in deletion. Directly created claims are observed.
func Holds(claim *claimcache.Claim) bool {
	return claim.FromPolicy() && isHeld(claim)
}

// isHeld reports whether a claim is granted and not released.
func isHeld(claim *claimcache.Claim) bool {
	return claim.State == claimcache.Granted && (claim.Finalizer || !claim.Deleting)
}

// Difference is a disagreement of ledger and claims about one balance.
type Difference struct {
	// Observed is the usage in the ledger and Actual the usage by the claims. Both have the same resource type and
	// dimensions.
	Observed, Actual ledger.Usage
}

// balanceKey identifies a balance of a consumer.
type balanceKey struct {
	resourceType string
	dimensions   ledger.Dimensions
}

func keyOf(u ledger.Usage) balanceKey { return balanceKey{u.ResourceType, u.Dimensions} }

// Compare returns the differences between recorded and held usage by balance, the recorded ones first. Both are without
// zeros and without repetitions.
func Compare(recorded, held []ledger.Usage) []Difference {
	actual := byKey(held)
	var all []Difference
	for _, u := range recorded {
		if actual[keyOf(u)] != u {
			all = append(all, Difference{Observed: u, Actual: usageOf(actual, keyOf(u))})
		}
	}
	known := byKey(recorded)
	for _, u := range held {
		if _, ok := known[keyOf(u)]; !ok {
			all = append(all, Difference{Observed: usageOf(known, keyOf(u)), Actual: u})
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

// usageOf returns the usage of a balance, or zero usage for an unknown one.
func usageOf(balances map[balanceKey]ledger.Usage, key balanceKey) ledger.Usage {
	u := balances[key]
	u.ResourceType, u.Dimensions = key.resourceType, key.dimensions
	return u
}

// LacksUsage reports whether the ledger has too little usage. If not, it has too much.
func (d Difference) LacksUsage() bool {
	if d.Actual.Amount != d.Observed.Amount {
		return d.Actual.Amount > d.Observed.Amount
	}
	return d.Actual.Claims > d.Observed.Claims
}

func (d Difference) String() string {
	name := d.Observed.ResourceType
	if !d.Observed.Dimensions.IsZero() {
		name += " (" + d.Observed.Dimensions.String() + ")"
	}
	return fmt.Sprintf("%s: the ledger has %d used (claims: %d), the claims hold %d (claims: %d)",
		name, d.Observed.Amount, d.Observed.Claims, d.Actual.Amount, d.Actual.Claims)
}
