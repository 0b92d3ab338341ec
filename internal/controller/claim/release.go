package claim

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

const (
	// inUseRetry is when a policy's deleted claim is looked at again whose object is still there, should
	// its end go unnoticed.
	inUseRetry = 10 * time.Second
	// namedRetryMin and namedRetryMax bound when a claim that was made directly is looked at again whose object is
	// still there. Nothing follows that object, so the claim is looked at more often at first.
	namedRetryMin = 250 * time.Millisecond
	namedRetryMax = 30 * time.Second
)

// release gives back what a claim holds, and then lets the claim go. The claim stays, with its
// charge, for as long as the object lives that it pays for: whoever deletes the claim, be it the
// garbage collector or the end of the claim's namespace, does not make the object free. A service
// gives a charge back earlier by [quotav1alpha1.AnnotationRelease].
func (c *Controller) release(ctx context.Context, known *claimcache.Claim) error {
	if !c.begin(known.NamespacedName) {
		c.releases.AddAfter(taskOf(known), busyRetry)
		return nil
	}
	defer c.end(known.NamespacedName)
	if known.FromPolicy() {
		unlock, err := c.Store.LockObject(ctx, string(known.ObjectUID))
		if err != nil {
			return fmt.Errorf("release claim %s: %w", known.NamespacedName, err)
		}
		defer unlock()
	}
	var r releasing
	drifted, err := c.Store.Release(ctx, known.Consumer(), string(known.UID), func(ctx context.Context) (_ *ledgerstore.ClaimCharges, err error) {
		r, err = c.readReleasing(ctx, known)
		return r.charges, err
	})
	// Whatever came of it, nobody need wait for it any longer.
	c.Store.ReleaseDone(known.Consumer(), string(known.UID))
	if err != nil {
		return fmt.Errorf("release claim %s: %w", known.NamespacedName, err)
	}
	if r.charges != nil {
		c.Store.ReleaseDone(known.Consumer(), r.charges.Key)
		c.Store.ReleaseDone(known.Consumer(), r.charges.Amendment)
	}
	if drifted {
		c.Log.Info("the charge of a claim was not in the books", "claim", known.NamespacedName.String())
	}
	switch {
	case r.isGone():
		return nil
	case r.isInUse():
		c.releases.AddAfter(taskOf(known), inUseRetryOf(r.claim))
		return nil
	}
	if err := c.Client.RemoveFinalizer(ctx, r.claim); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("let claim %s go: %w", known.NamespacedName, err)
	}
	return nil
}

// releasing is a claim that is to be released, as the API server has it.
type releasing struct {
	// claim is nil if it is gone, or released already.
	claim *quotav1alpha1.ResourceClaim
	// charges are what it gives back, or nil if its object is still there.
	charges *ledgerstore.ClaimCharges
}

func (r *releasing) isGone() bool  { return r.claim == nil }
func (r *releasing) isInUse() bool { return r.claim != nil && r.charges == nil }

// readReleasing reads a claim that is to be released.
func (c *Controller) readReleasing(ctx context.Context, known *claimcache.Claim) (releasing, error) {
	live, err := c.Client.Get(ctx, known.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		return releasing{}, nil
	case err != nil:
		return releasing{}, fmt.Errorf("read claim %s: %w", known.NamespacedName, err)
	case live.UID != known.UID, !claimcache.HasFinalizer(live):
		return releasing{}, nil
	}
	inUse, err := c.isInUse(ctx, live)
	if inUse || err != nil {
		return releasing{claim: live}, err
	}
	charges, err := claimChargesOf(live)
	return releasing{claim: live, charges: charges}, err
}

// inUseRetryOf returns when to look again at a deleted claim whose object still exists: the later, the longer ago the claim
// was deleted.
func inUseRetryOf(claim *quotav1alpha1.ResourceClaim) time.Duration {
	if claimcache.IsFromPolicy(claim) || claim.DeletionTimestamp == nil {
		return inUseRetry
	}
	return min(max(time.Since(claim.DeletionTimestamp.Time)/4, namedRetryMin), namedRetryMax)
}

// isInUse tells whether the object exists that a claim pays for. A claim that nobody was told is granted pays for nothing.
func (c *Controller) isInUse(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error) {
	if claims.IsSuperseded(claim) || claims.IsGivenUp(claim) {
		return false, nil
	}
	if !claimcache.IsFromPolicy(claim) && claimcache.StateOf(claim) != claimcache.Granted {
		return false, nil
	}
	lives, err := c.InUse(ctx, claim)
	if err != nil {
		return false, fmt.Errorf("find out whether %s %s still exists: %w", claim.Spec.ResourceRef.Kind, claim.Spec.ResourceRef.Name, err)
	}
	return lives, nil
}

// ObjectVanished looks again at deleted claims of an object that is gone. It has the form of a
// [objectcache.Handler].
func (c *Controller) ObjectVanished(_ schema.GroupKind, uid types.UID) {
	for _, claim := range c.Claims.ForObject(uid) {
		if claim.Deleting && claim.Finalizer {
			c.Store.ExpectRelease(claim.Consumer(), string(claim.UID))
			routing.Share(c.releases, c.Preferred.For(claim.Consumer()), taskOf(claim))
		}
	}
}

// claimChargesOf tells what a claim may hold in the books.
func claimChargesOf(claim *quotav1alpha1.ResourceClaim) (*ledgerstore.ClaimCharges, error) {
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return nil, err
	}
	key, sequence := keyOf(claim)
	holding := &ledgerstore.ClaimCharges{
		ClaimUID:  string(claim.UID),
		Key:       key,
		Sequence:  sequence,
		Amendment: ledgerstore.ResizeKey(string(claim.UID)),
		Granted:   claimcache.StateOf(claim) == claimcache.Granted,
		Charges:   charges,
	}
	if claimcache.IsFromPolicy(claim) {
		holding.Amendment = ledgerstore.AmendmentKey(claims.PolicyOf(claim), claim.Annotations[quotav1alpha1.AnnotationResourceUID])
	}
	return holding, nil
}

// keyOf names the reservation that a claim was, or will be, made from. Sequence 0 is any.
func keyOf(claim *quotav1alpha1.ResourceClaim) (key string, sequence int64) {
	if claimcache.IsFromPolicy(claim) {
		if sequence := claims.SequenceOf(claim); sequence != 0 {
			return ledgerstore.ObjectKey(claims.PolicyOf(claim), claim.Annotations[quotav1alpha1.AnnotationResourceUID]), sequence
		}
	}
	return ledgerstore.ClaimKey(string(claim.UID)), 0
}
