package engine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

const (
	// inUseRetry is the interval of checks on a policy's deleted claim with an existing object, in case the deletion of
	// the object goes unnoticed.
	inUseRetry = 10 * time.Second
	// namedRetryMin and namedRetryMax bound the interval of checks on a directly created claim with an existing object.
	// Nobody watches that object, so the interval grows from a short one.
	namedRetryMin = 250 * time.Millisecond
	namedRetryMax = 30 * time.Second
)

// releaseAction is the next step for a deleted claim.
type releaseAction int

const (
	// releaseForget: somebody has deleted or released the claim.
	releaseForget releaseAction = iota
	// releaseNow: the claim pays for nothing.
	releaseNow
	// releaseUnlessInUse: the engine releases the claim unless its object exists.
	releaseUnlessInUse
)

// releaseFacts are the facts behind the release of a claim, besides its object.
type releaseFacts struct {
	exists, hasFinalizer, isSuperseded, hasEarlyRelease, isFromPolicy, isGranted bool
}

// releaseFactsOf returns the facts about a claim as the API server has it. live is nil if the claim is deleted.
func releaseFactsOf(live *quotav1alpha1.ResourceClaim, uid types.UID) releaseFacts {
	if live == nil || live.UID != uid {
		return releaseFacts{}
	}
	return releaseFacts{
		exists: true, hasFinalizer: claimcache.HasFinalizer(live), isSuperseded: claims.IsSuperseded(live), hasEarlyRelease: claims.HasEarlyRelease(live),
		isFromPolicy: claimcache.IsFromPolicy(live), isGranted: claimcache.StateOf(live) == claimcache.Granted,
	}
}

// decideRelease decides about a deleted claim. A directly created claim without a grant pays for nothing. The rest of
// the rule, whether the object still exists, is [Engine.InUse].
func decideRelease(f releaseFacts) releaseAction {
	switch {
	case !f.exists, !f.hasFinalizer:
		return releaseForget
	case f.isSuperseded, f.hasEarlyRelease, !f.isFromPolicy && !f.isGranted:
		return releaseNow
	default:
		return releaseUnlessInUse
	}
}

// Release removes the finalizer of a deleted claim, so that it counts no longer. The claim stays, with its charge,
// while its object exists: the deletion of the claim, even by the garbage collector or with its namespace, does not
// make the object free. Then Release returns the time until the next check. A service releases a charge earlier by
// [quotav1alpha1.AnnotationRelease]. The caller must not decide, resize or release the same claim at the same time.
func (e *Engine) Release(ctx context.Context, known *claimcache.Claim) (again time.Duration, err error) {
	r, err := e.letGo(ctx, known)
	e.Store.ReleaseDone(known.Consumer(), string(known.UID)) // the wait ends with any result
	switch {
	case err != nil:
		return 0, fmt.Errorf("release claim %s: %w", known.NamespacedName, err)
	case r.isInUse:
		return inUseRetryOf(r.claim), nil
	default:
		return 0, nil
	}
}

// letGo removes the finalizer of a deleted claim unless its object exists, and returns the claim as it was.
func (e *Engine) letGo(ctx context.Context, known *claimcache.Claim) (r releasing, err error) {
	if known.FromPolicy() {
		unlock, err := e.Store.LockObject(ctx, string(known.ObjectUID))
		if err != nil {
			return r, err
		}
		defer unlock()
	}
	if r, err = e.readReleasing(ctx, known); err == nil && r.claim != nil && !r.isInUse {
		err = e.removeFinalizer(ctx, r.claim)
	}
	return r, err
}

// removeFinalizer lets a deleted claim go. The inventory then counts it no longer.
func (e *Engine) removeFinalizer(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if err := e.Client.RemoveFinalizer(ctx, claim); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// releasing is a claim before its release, as the API server has it.
type releasing struct {
	// claim is nil if it is deleted, or released already.
	claim *quotav1alpha1.ResourceClaim
	// isInUse is true if its object exists.
	isInUse bool
}

// readReleasing reads a claim before its release.
func (e *Engine) readReleasing(ctx context.Context, known *claimcache.Claim) (releasing, error) {
	live, err := e.Client.Get(ctx, known.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return releasing{}, fmt.Errorf("read claim %s: %w", known.NamespacedName, err)
	}
	switch decideRelease(releaseFactsOf(live, known.UID)) {
	case releaseForget:
		return releasing{}, nil
	case releaseUnlessInUse:
		inUse, err := e.InUse(ctx, live)
		if err != nil {
			ref := live.Spec.ResourceRef
			return releasing{claim: live}, fmt.Errorf("find out whether %s %s still exists: %w", ref.Kind, ref.Name, err)
		}
		return releasing{live, inUse}, nil
	}
	return releasing{claim: live}, nil
}

// inUseRetryOf returns the time until the next check on a deleted claim with an existing object. It grows with the time
// since the deletion.
func inUseRetryOf(claim *quotav1alpha1.ResourceClaim) time.Duration {
	if claimcache.IsFromPolicy(claim) || claim.DeletionTimestamp == nil {
		return inUseRetry
	}
	return min(max(time.Since(claim.DeletionTimestamp.Time)/4, namedRetryMin), namedRetryMax)
}
