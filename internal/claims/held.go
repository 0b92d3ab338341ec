package claims

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// HoldsCharge reports whether a claim is granted and stays. A policy's claim also stays, and holds its charge, if
// somebody deletes it while its object exists.
func HoldsCharge(claim *quotav1alpha1.ResourceClaim) bool {
	stays := claim.DeletionTimestamp == nil || claimcache.IsFromPolicy(claim) && claimcache.HasFinalizer(claim)
	return claimcache.StateOf(claim) == claimcache.Granted && stays && !IsSuperseded(claim)
}

// ChargesOf returns the charges that a claim of record demands: those of its requests until its release, which removes
// the finalizer of a claim in deletion. A claim by a person or a service demands nothing before its grant.
func ChargesOf(claim *claimcache.Claim) ([]ledger.Charge, error) {
	isReleased := claim.Deleting && !claim.Finalizer
	isUndecided := !claim.FromPolicy() && claim.State != claimcache.Granted
	if isReleased || isUndecided {
		return nil, nil
	}
	return Charges(claim.Requests())
}

// IDOf identifies a claim of record in the inventory. That of a policy's claim is known before the claim exists: the
// claims of one policy for one object have it in common, of which there are two only by accident.
func IDOf(claim *claimcache.Claim) string {
	if claim.FromPolicy() {
		return ledgerstore.ObjectKey(claim.Policy(), string(claim.ObjectUID))
	}
	return string(claim.UID)
}

// ObjectOf returns a claim of record as the inventory knows it, without what it demands.
func ObjectOf(claim *claimcache.Claim) inventory.Object {
	return inventory.Object{
		NamespacedName: claim.NamespacedName, UID: types.UID(IDOf(claim)), Version: claim.Version, Created: time.Unix(claim.Created, 0),
	}
}

// CountedObjectOf returns a claim of record as the inventory knows it. The API server refuses amounts that cannot be
// read. With one, the claim demands nothing, and there is an error.
func CountedObjectOf(claim *claimcache.Claim) (inventory.Object, error) {
	o := ObjectOf(claim)
	charges, err := ChargesOf(claim)
	if err != nil {
		return o, fmt.Errorf("read claim %s: %w", claim.NamespacedName, err)
	}
	if len(charges) > 0 {
		o.Demands = []inventory.Demand{{Consumer: claim.Consumer(), Charges: charges}}
	}
	return o, nil
}

// HasEarlyRelease reports whether a directly created claim releases its charge on deletion, although its object
// exists.
func HasEarlyRelease(claim *quotav1alpha1.ResourceClaim) bool {
	return !claimcache.IsFromPolicy(claim) && claim.Annotations[quotav1alpha1.AnnotationRelease] == "true"
}

// IsSuperseded reports whether Bursar is removing the claim, because its object has another one.
func IsSuperseded(claim *quotav1alpha1.ResourceClaim) bool {
	return claim.Annotations[quotav1alpha1.AnnotationSuperseded] == "true"
}
