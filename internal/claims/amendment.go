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

// Amendment returns the reservation, under key, to amend a granted claim to charges. base is the version of the
// object before an outstanding update, or empty.
func Amendment(claim *quotav1alpha1.ResourceClaim, key string, charges []ledger.Charge, intent Intent, base string) (*ledger.Reservation, error) {
	held, err := Charges(claim.Spec.Requests)
	if err != nil {
		return nil, err
	}
	// The claim exists already, with its labels and annotations.
	intent.Claim = types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	intent.Labels, intent.Annotations, intent.Base = nil, nil, base
	return &ledger.Reservation{
		Key: key, ReservedAt: time.Now().Unix(), Charges: charges, Replaces: held, Claim: intent.Encode(),
	}, nil
}

// LaterIntent returns one of two intents: the one for an update of the later version of the object. Once that version
// exists, an update of an earlier one is no longer possible.
func LaterIntent(before, after string) string {
	a, errA := IntentOf(before)
	b, errB := IntentOf(after)
	if errA == nil && errB == nil && a.Base != b.Base && (b.Base == "" || MayChange(b.Base, a.Base)) {
		return before
	}
	return after
}

// MayChange reports whether an update based on version base may still reach an object at the given version. It may
// unless the object is past base.
func MayChange(version, base string) bool {
	order, err := resourceversion.CompareResourceVersion(version, base)
	return err == nil && order <= 0 || version == base
}

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

// Reread reads a claim again. It returns nil if the claim no longer holds a charge.
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
