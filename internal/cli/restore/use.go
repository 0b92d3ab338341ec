package restore

import (
	"cmp"
	"fmt"
	"maps"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// balance is one resource type of a consumer with one set of dimensions.
type balance struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
	dimensions   ledger.Dimensions
}

func compareBalances(a, b balance) int {
	return cmp.Or(naming.CompareConsumers(a.consumer, b.consumer), cmp.Compare(a.resourceType, b.resourceType), a.dimensions.Compare(b.dimensions))
}

// sum is the charge of all claims of a balance.
type sum struct {
	amount ledger.Amount
	claims int64
}

// use is the charge of claims by balance.
type use map[balance]sum

// add adds a claim if it holds its charge, or is the view of an object that does.
func (u use) add(claim *quotav1alpha1.ResourceClaim) error {
	if !claims.HoldsCharge(claim) {
		return nil
	}
	charges, err := claims.Charges(claim.Spec.Requests)
	return u.addCharges(claim, charges, err)
}

// addOfRecord adds what the ledger is to observe of a claim.
func (u use) addOfRecord(claim *quotav1alpha1.ResourceClaim) error {
	charges, err := claims.ChargesOf(claimcache.Compact(claim))
	return u.addCharges(claim, charges, err)
}

func (u use) addCharges(claim *quotav1alpha1.ResourceClaim, charges []ledger.Charge, err error) error {
	if err != nil {
		return fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	for _, charge := range charges {
		key := balance{claim.Spec.ConsumerRef, charge.ResourceType, charge.Dimensions}
		total, fits := u[key].amount.Add(charge.Amount)
		if !fits {
			return fmt.Errorf("claim %s/%s: the amounts of %s are too large to count", claim.Namespace, claim.Name, charge.ResourceType)
		}
		u[key] = sum{total, u[key].claims + 1}
	}
	return nil
}

// addObserved adds what a ledger has observed of claims, and returns the version of the claims that this rests on.
func (u use) addObserved(spec *quotav1alpha1.ConsumerLedgerSpec) (version int64, err error) {
	for _, o := range spec.Observations {
		if o.Kind != inventory.Claims {
			continue
		}
		version = o.ObjectsVersion
		for _, d := range o.Demands {
			dimensions, err := ledger.NewDimensions(d.Dimensions)
			if err != nil {
				return 0, fmt.Errorf("demand for %s: %w", d.ResourceType, err)
			}
			u[balance{spec.ConsumerRef, d.ResourceType, dimensions}] = sum{ledger.Amount(d.Amount), d.Objects}
		}
	}
	return version, nil
}

// of returns the use of one consumer.
func (u use) of(consumer quotav1alpha1.ConsumerRef) use {
	its := maps.Clone(u)
	maps.DeleteFunc(its, func(key balance, _ sum) bool { return key.consumer != consumer })
	return its
}
