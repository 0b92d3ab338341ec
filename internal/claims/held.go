package claims

import (
	"context"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

// OfObject reads the claim of a policy for an object. known are the claims of the object in the cache. It returns nil
// if there is none. NotFound means that the cache lags behind.
func (c *Client) OfObject(ctx context.Context, known []*claimcache.Claim, policy string) (*quotav1alpha1.ResourceClaim, error) {
	for _, each := range known {
		if each.Policy() != policy {
			continue
		}
		claim, err := c.Get(ctx, each.NamespacedName)
		if err != nil || claim.UID == each.UID {
			return claim, err
		}
	}
	return nil, nil
}

// HoldsCharge reports whether a claim is granted and stays. A policy's claim also stays, and holds its charge, if
// somebody deletes it while its object exists. Whether the ledger has released it since, only the ledger knows.
func HoldsCharge(claim *quotav1alpha1.ResourceClaim) bool {
	stays := claim.DeletionTimestamp == nil || claimcache.IsFromPolicy(claim) && claimcache.HasFinalizer(claim)
	return claimcache.StateOf(claim) == claimcache.Granted && stays && !IsSuperseded(claim)
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
