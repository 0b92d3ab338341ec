package ledger_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/ledger"
)

// TestBalancesAndMatchingAreSums compares them with sums over the snapshot.
func TestBalancesAndMatchingAreSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := newPair(t), drawn{t}
		for range 20 {
			p.step(s, false)
			snapshot := p.ledger.Snapshot()
			for _, resourceType := range someTypes {
				p.same("Balances of "+resourceType, p.ledger.Balances(resourceType), balancesOf(snapshot, resourceType))
				for _, d := range someDimensions {
					p.same("Matching of "+resourceType+" "+d.String(), p.ledger.Matching(resourceType, d), matchingOf(snapshot, resourceType, d))
				}
			}
			p.same("Snapshot after a look", p.ledger.Snapshot(), snapshot)
		}
	})
}

func balancesOf(snapshot ledger.Snapshot, resourceType string) []ledger.Balance {
	sums := map[ledger.Dimensions]ledger.Balance{}
	for _, o := range snapshot.Observations {
		for _, d := range o.Demands {
			if d.ResourceType == resourceType {
				balance := sums[d.Dimensions]
				balance.Dimensions = d.Dimensions
				balance.Used += d.Amount
				balance.Claims += d.Objects
				sums[d.Dimensions] = balance
			}
		}
	}
	for _, r := range snapshot.Reservations {
		for _, c := range r.Charges {
			if c.ResourceType == resourceType {
				balance := sums[c.Dimensions]
				balance.Dimensions = c.Dimensions
				balance.Reserved += c.Amount
				sums[c.Dimensions] = balance
			}
		}
	}
	var balances []ledger.Balance
	for _, balance := range sums {
		balances = append(balances, balance)
	}
	slices.SortFunc(balances, func(a, b ledger.Balance) int { return a.Dimensions.Compare(b.Dimensions) })
	return balances
}

func matchingOf(snapshot ledger.Snapshot, resourceType string, d ledger.Dimensions) ledger.Amount {
	var sum ledger.Amount
	for _, g := range snapshot.Grants {
		for _, a := range g.Allowances {
			if a.ResourceType == resourceType && a.Selector.Matches(d) {
				sum += a.Amount
			}
		}
	}
	return sum
}

func TestMatcherIsMatches(t *testing.T) {
	for _, s := range someSelectors {
		matches := s.Matcher()
		for _, d := range someDimensions {
			if matches(d) != s.Matches(d) {
				t.Errorf("selector %q: the matcher says %t of %q, want %t", s, matches(d), d, s.Matches(d))
			}
		}
	}
}
