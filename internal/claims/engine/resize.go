package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Resize decides the requested resize of a granted claim. Until the last step, the amendment in the ledger records
// that the ledger still has the earlier charges. A process that dies in between leaves it to [Engine.Finish]. Resize
// reports true if it takes another call to decide the resize. It returns [ledgerstore.ErrReleasing] as
// [Engine.Decide] does. The caller must not decide, resize or release the same claim at the same time.
func (e *Engine) Resize(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (again bool, err error) {
	var target resize
	outcome, err := e.Store.Apply(ctx, consumer, ledgerstore.Request{
		Verify: func(ctx context.Context) (_ []ledger.Reservation, err error) {
			target, err = e.resizeOf(ctx, name, consumer)
			return target.amendment, err
		},
	})
	decision := outcome.Single()
	switch {
	case err != nil:
		return false, fmt.Errorf("resize claim %s: %w", name, err)
	case target.claim == nil:
		return false, nil
	case target.requests == nil:
		return false, e.finishResize(ctx, target.claim)
	case target.invalid != nil:
		return e.postpone(ctx, target.claim, quotav1alpha1.ReasonValidationFailed, target.invalid.Error())
	}
	switch decision.Code {
	case ledger.Admitted:
		return false, e.applyResize(ctx, target, decision.Sequence)
	case ledger.Exceeded:
		return e.postpone(ctx, target.claim, quotav1alpha1.ReasonQuotaExceeded, message.Of(consumer, decision.Shortages).Sentences(e.Catalog,
			"This is in addition to the present amounts of the claim. It keeps those, and gets the rest by itself once there is room."))
	case ledger.NotHeld:
		return false, fmt.Errorf("resize claim %s: %w", name, ErrNotHeld)
	default:
		err, reason := message.Impossible(consumer, decision.Code), quotav1alpha1.ReasonValidationFailed
		if full := (*message.FullError)(nil); errors.As(err, &full) {
			reason = quotav1alpha1.ReasonQuotaExceeded
		}
		return e.postpone(ctx, target.claim, reason, err.Error())
	}
}

// ErrNotHeld means that the grant of a claim has yet to settle, or that the auditor has to correct the ledger first.
var ErrNotHeld = errors.New("the ledger does not have the amounts of the claim")

// resize is a requested resize of a claim.
type resize struct {
	// claim is nil if the claim cannot be resized.
	claim *quotav1alpha1.ResourceClaim
	// requests are nil if the claim already holds them.
	requests []quotav1alpha1.ResourceRequest
	// invalid is the reason why no decision about the resize is possible. Otherwise there is one amendment.
	invalid   error
	amendment []ledger.Reservation
}

// resizeOf reads the requested resize of a claim.
func (e *Engine) resizeOf(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (r resize, err error) {
	claim, err := e.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read claim %s: %w", name, err)
	}
	if claim.DeletionTimestamp != nil || claim.Spec.ConsumerRef != consumer || claimcache.IsFromPolicy(claim) || claimcache.StateOf(claim) != claimcache.Granted {
		return r, nil
	}
	r = resize{claim: claim, requests: claimcache.ResizeOf(claim)}
	if r.requests == nil {
		return r, nil
	}
	amendment, err := e.resizeReservation(claim, r.requests)
	if err != nil {
		r.invalid = err
		return r, nil
	}
	r.amendment = []ledger.Reservation{amendment}
	return r, nil
}

// resizeReservation returns the amendment of a claim to other requests, or the reason why it is invalid.
func (e *Engine) resizeReservation(claim *quotav1alpha1.ResourceClaim, requests []quotav1alpha1.ResourceRequest) (ledger.Reservation, error) {
	held, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return ledger.Reservation{}, err
	}
	resized := claim.DeepCopy()
	resized.Spec.Requests = requests
	amendment, err := e.reservationOf(resized)
	amendment.Key, amendment.Replaces = ledgerstore.ResizeKey(string(claim.UID)), held
	return amendment, err
}

// HasResizeInFlight reports whether [Engine.Resize] has to end an amendment of a claim.
func (e *Engine) HasResizeInFlight(claim *claimcache.Claim) bool {
	_, known := e.Store.ReservationOf(claim.Consumer(), ledgerstore.ResizeKey(string(claim.UID)))
	return known
}

// applyResize writes an admitted resize into the claim and settles it.
func (e *Engine) applyResize(ctx context.Context, target resize, sequence int64) error {
	if err := e.amendClaim(ctx, target.claim, target.requests); err != nil {
		return err
	}
	_, err := e.SettleAmendment(ctx, target.claim.Spec.ConsumerRef, target.amendment[0].Key, sequence, target.amendment[0].Charges)
	return err
}

// amendClaim writes requests into a claim and its status. It skips writes without a change.
func (e *Engine) amendClaim(ctx context.Context, claim *quotav1alpha1.ResourceClaim, requests []quotav1alpha1.ResourceRequest) error {
	if err := e.Client.Amend(ctx, claim, requests, func(amended *quotav1alpha1.ResourceClaim) {
		claims.Grant(amended, e.Catalog, time.Now())
		claims.ClearResizePending(amended)
	}); err != nil {
		return fmt.Errorf("change the amounts of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// finishResize finishes a resize with its requests in the claim, but maybe not in its status and the ledger.
func (e *Engine) finishResize(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if err := e.amendClaim(ctx, claim, claim.Spec.Requests); err != nil {
		return err
	}
	return e.endInFlight(ctx, claim)
}

// postpone records why a resize is pending. It first finishes the resize of an earlier request, and then reports true.
// The process behind that one has changed the claim already, or can no longer do so, since the newer request has
// changed the claim.
func (e *Engine) postpone(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reason, message string) (again bool, err error) {
	if _, known := e.Store.ReservationOf(claim.Spec.ConsumerRef, ledgerstore.ResizeKey(string(claim.UID))); known {
		return true, e.finishResize(ctx, claim)
	}
	return false, e.setResizePending(ctx, claim, reason, message)
}

// endInFlight ends the amendment of a claim, if there is one, with the charges in the claim.
func (e *Engine) endInFlight(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	held, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return err
	}
	consumer, key := claim.Spec.ConsumerRef, ledgerstore.ResizeKey(string(claim.UID))
	if amendment, known := e.Store.ReservationOf(consumer, key); known {
		_, err = e.SettleAmendment(ctx, consumer, key, amendment.Sequence, held)
	}
	return err
}

// setResizePending records why a resize is pending.
func (e *Engine) setResizePending(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reason, message string) error {
	before := claim.Status.DeepCopy()
	claims.SetResizePending(claim, reason, message)
	if equality.Semantic.DeepEqual(*before, claim.Status) {
		return nil
	}
	return e.updateStatus(ctx, claim)
}
