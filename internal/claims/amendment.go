package claims

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
)

// Amendment is the reservation under key that changes what a granted claim holds to charges. base
// is the version of the object that the change goes with, if it is yet to be made.
func Amendment(claim *quotav1alpha1.ResourceClaim, key string, charges []ledger.Charge, intent Intent, base string) (*ledger.Reservation, error) {
	held, err := Charges(claim.Spec.Requests)
	if err != nil {
		return nil, err
	}
	// The claim exists already, with the labels and annotations that it has.
	intent.Claim = types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	intent.Labels, intent.Annotations, intent.Base = nil, nil, base
	return &ledger.Reservation{
		Key: key, ReservedAt: time.Now().Unix(), Charges: charges, Replaces: held, Claim: intent.Encode(),
	}, nil
}

// LaterIntent returns that of two outlines whose change is made to the later version of the object:
// once there is such a version, a change to an earlier one cannot be made any more.
func LaterIntent(before, after string) string {
	a, errA := IntentOf(before)
	b, errB := IntentOf(after)
	if errA == nil && errB == nil && a.Base != b.Base && (b.Base == "" || MayChange(b.Base, a.Base)) {
		return before
	}
	return after
}

// MayChange tells whether a change that is made to version base of an object may still come to an
// object of the given version, which is where the object is not past base.
func MayChange(version, base string) bool {
	order, err := resourceversion.CompareResourceVersion(version, base)
	return err == nil && order <= 0 || version == base
}

// OfObject reads the claim that a policy made for an object, known being those that the cache has
// of the object. It returns nil if there is none; NotFound says that the cache is behind.
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

// Reread reads a claim again, and returns nil if it is not granted any more, or on its way out.
func (c *Client) Reread(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (*quotav1alpha1.ResourceClaim, error) {
	live, err := c.Get(ctx, types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil || live.UID != claim.UID || !HoldsCharge(live) {
		return nil, err
	}
	return live, nil
}

// HoldsCharge tells whether a claim holds something, and is not on its way out.
func HoldsCharge(claim *quotav1alpha1.ResourceClaim) bool {
	return claimcache.StateOf(claim) == claimcache.Granted && claim.DeletionTimestamp == nil && !IsSuperseded(claim)
}

// HasEarlyRelease reports whether a claim that no policy made releases its charge as soon as it is deleted, although its object
// exists.
func HasEarlyRelease(claim *quotav1alpha1.ResourceClaim) bool {
	return !claimcache.IsFromPolicy(claim) && claim.Annotations[quotav1alpha1.AnnotationRelease] == "true"
}

// IsSuperseded tells whether Bursar is replacing the claim by another, or taking it away because
// its object costs nothing any more.
func IsSuperseded(claim *quotav1alpha1.ResourceClaim) bool {
	return claim.Annotations[quotav1alpha1.AnnotationSuperseded] == "true"
}
