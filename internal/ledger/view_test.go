package ledger_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/ledger"
)

// TestRowsAndMatchingAreSums compares them with what the books say, added up anew.
func TestRowsAndMatchingAreSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := newPair(t), drawn{t}
		for range 20 {
			p.step(s, false)
			books := p.ledger.Snapshot()
			for _, resourceType := range someTypes {
				p.same("Rows of "+resourceType, p.ledger.Balances(resourceType), rowsOf(books, resourceType))
				for _, d := range someDimensions {
					p.same("Matching of "+resourceType+" "+d.String(), p.ledger.Matching(resourceType, d), matchingOf(books, resourceType, d))
				}
			}
			if after := p.ledger.Snapshot(); !slices.EqualFunc(books.Used, after.Used, func(a, b ledger.Usage) bool { return a == b }) {
				t.Fatalf("looking at the books changed them from %v to %v", books.Used, after.Used)
			}
		}
	})
}

func rowsOf(books ledger.Snapshot, resourceType string) []ledger.Balance {
	sums := map[ledger.Dimensions]ledger.Balance{}
	for _, u := range books.Used {
		if u.ResourceType == resourceType {
			row := sums[u.Dimensions]
			row.Dimensions, row.Used, row.Claims = u.Dimensions, u.Amount, u.Claims
			sums[u.Dimensions] = row
		}
	}
	for _, r := range books.Reservations {
		for _, c := range r.Charges {
			if c.ResourceType == resourceType {
				row := sums[c.Dimensions]
				row.Dimensions = c.Dimensions
				row.Reserved += c.Amount
				sums[c.Dimensions] = row
			}
		}
	}
	var rows []ledger.Balance
	for _, row := range sums {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b ledger.Balance) int { return a.Dimensions.Compare(b.Dimensions) })
	return rows
}

func matchingOf(books ledger.Snapshot, resourceType string, d ledger.Dimensions) ledger.Amount {
	var sum ledger.Amount
	for _, g := range books.Grants {
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
