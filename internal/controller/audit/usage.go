package audit

import (
	"fmt"

	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
)

// Usage adds up what claims of one consumer hold, in the order and form of [ledger.Books]. Claims
// that hold nothing are left out. It fails if the sums cannot be counted.
func Usage(held []*claimcache.Claim) ([]ledger.Usage, error) {
	books := ledger.New()
	for _, claim := range held {
		if !holds(claim) {
			continue
		}
		charges, err := claims.Charges(claim.Requests())
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", claim.NamespacedName, err)
		}
		key := string(claim.UID)
		if decision := books.Adopt(ledger.Reservation{Key: key, Charges: charges}); decision.Code != ledger.Admitted || decision.Existing {
			return nil, fmt.Errorf("claim %s cannot be counted: %s", claim.NamespacedName, decision.Code)
		}
		books.Settle(key, 0)
	}
	return books.Books().Used, nil
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

// row is what tells the rows of a consumer apart.
type row struct {
	resourceType string
	dimensions   ledger.Dimensions
}

func rowOf(u ledger.Usage) row { return row{u.ResourceType, u.Dimensions} }

// compare returns every row in which the books differ from what the claims hold, those that
// the books have first. Both are without zeros and without repetitions.
func compare(books, held []ledger.Usage) []difference {
	actual := byRow(held)
	var all []difference
	for _, u := range books {
		if actual[rowOf(u)] != u {
			all = append(all, difference{observed: u, actual: usageOf(actual, rowOf(u))})
		}
	}
	known := byRow(books)
	for _, u := range held {
		if _, ok := known[rowOf(u)]; !ok {
			all = append(all, difference{observed: usageOf(known, rowOf(u)), actual: u})
		}
	}
	return all
}

func byRow(usages []ledger.Usage) map[row]ledger.Usage {
	rows := make(map[row]ledger.Usage, len(usages))
	for _, u := range usages {
		rows[rowOf(u)] = u
	}
	return rows
}

// usageOf returns the usage of a row, which is of nothing by no claims if there is none.
func usageOf(rows map[row]ledger.Usage, r row) ledger.Usage {
	u := rows[r]
	u.ResourceType, u.Dimensions = r.resourceType, r.dimensions
	return u
}

// charges tells whether the books lack usage. If not, they have too much.
func (d difference) charges() bool {
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
