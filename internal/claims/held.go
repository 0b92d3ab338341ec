package claims

import (
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
)

// HoldsCharge reports whether a claim is granted and stays. A policy's claim also stays, and holds its charge, if
// somebody deletes it while its object exists. Whether the ledger has released it since, only the ledger knows.
func HoldsCharge(claim *quotav1alpha1.ResourceClaim) bool {
	stays := claim.DeletionTimestamp == nil || claimcache.IsFromPolicy(claim) && claimcache.HasFinalizer(claim)
	return claimcache.StateOf(claim) == claimcache.Granted && stays && !IsSuperseded(claim)
}

// DirectCharges returns the charges that a directly created claim demands: those of its requests, from its grant to its
// release. A release removes the finalizer of a claim in deletion. Others, and policies' claims, demand nothing.
func DirectCharges(claim *quotav1alpha1.ResourceClaim) ([]ledger.Charge, error) {
	isReleased := claim.DeletionTimestamp != nil && !claimcache.HasFinalizer(claim)
	if isReleased || claimcache.IsFromPolicy(claim) || claimcache.StateOf(claim) != claimcache.Granted {
		return nil, nil
	}
	return Charges(claim.Spec.Requests)
}

// HasEarlyRelease reports whether a directly created claim releases its charge on deletion, although its object
// exists.
func HasEarlyRelease(claim *quotav1alpha1.ResourceClaim) bool {
	return !claimcache.IsFromPolicy(claim) && claim.Annotations[quotav1alpha1.AnnotationRelease] == "true"
}

// IsSuperseded reports whether Bursar is replacing the claim by another, or removing it because its object no longer
// costs anything.
func IsSuperseded(claim *quotav1alpha1.ResourceClaim) bool {
	return claim.Annotations[quotav1alpha1.AnnotationSuperseded] == "true"
}
