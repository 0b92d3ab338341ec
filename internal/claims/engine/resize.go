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

// Resize decides what a granted claim is to hold in place of what it holds. The amendment in the ledger tells, until
// the last step, that the ledger still has what the claim held before; a process that dies in between leaves it to
// [Engine.Finish]. Resize reports true if what is short is known once it is called again. It returns
// [ledgerstore.ErrReleasing] as [Engine.Decide] does. The caller must not decide, resize or release the same claim at the same
// time.
func (e *Engine) Resize(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (again bool, err error) {
	var target resize
	outcome, err := e.Store.Apply(ctx, consumer, ledgerstore.Request{
		Verify: func(ctx context.Context) (_ []ledger.Reservation, err error) {
			target, err = e.resizeOf(ctx, name, consumer)
			return target.amendment, err
		},
		Extend: func(_, after string) string { return after },
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
		return false, e.setResizePending(ctx, target.claim, quotav1alpha1.ReasonValidationFailed, target.invalid.Error())
	}
	switch decision.Code {
	case ledger.Admitted:
		return false, e.applyResize(ctx, target, decision.Sequence)
	case ledger.Exceeded:
		return e.recordExceeded(ctx, target, decision.Shortages)
	case ledger.NotHeld:
		return false, fmt.Errorf("resize claim %s: %w", name, ErrNotHeld)
	default:
		err, reason := message.Impossible(consumer, decision.Code), quotav1alpha1.ReasonValidationFailed
		if full := (*message.FullError)(nil); errors.As(err, &full) {
			reason = quotav1alpha1.ReasonQuotaExceeded
		}
		return false, e.setResizePending(ctx, target.claim, reason, err.Error())
	}
}

// ErrNotHeld means that the grant of a claim is being settled, or that the auditor has to correct the ledger first.
var ErrNotHeld = errors.New("the ledger does not have what the claim holds")

// resize is what a claim is to hold.
type resize struct {
	// claim is nil if it is not one that is resized.
	claim *quotav1alpha1.ResourceClaim
	// requests are nil if the claim holds what it is to hold.
	requests []quotav1alpha1.ResourceRequest
	// invalid is why it cannot be decided. Otherwise there is one amendment.
	invalid   error
	amendment []ledger.Reservation
}

// resizeOf reads what a claim is to hold.
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

// resizeReservation is the amendment that has a claim hold other requests, or why it cannot be made.
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

// applyResize has a claim hold what was admitted.
func (e *Engine) applyResize(ctx context.Context, target resize, sequence int64) error {
	if err := e.amendClaim(ctx, target.claim, target.requests); err != nil {
		return err
	}
	_, err := e.SettleAmendment(ctx, target.claim.Spec.ConsumerRef, target.amendment[0].Key, sequence, target.amendment[0].Charges)
	return err
}

// amendClaim writes into a claim that it holds some requests, and nothing if the claim says so already.
func (e *Engine) amendClaim(ctx context.Context, claim *quotav1alpha1.ResourceClaim, requests []quotav1alpha1.ResourceRequest) error {
	if err := e.Client.Amend(ctx, claim, requests, func(amended *quotav1alpha1.ResourceClaim) {
		claims.Grant(amended, e.Catalog, time.Now())
		claims.ClearResizePending(amended)
	}); err != nil {
		return fmt.Errorf("change what claim %s/%s holds: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// finishResize finishes what is left of a resize: the claim requests what it holds, and its status and the ledger may not
// say so yet.
func (e *Engine) finishResize(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if err := e.amendClaim(ctx, claim, claim.Spec.Requests); err != nil {
		return err
	}
	return e.endInFlight(ctx, claim)
}

// exceeded records that there is no room for what a claim is to hold. An amendment to something else, which was asked
// for before, is ended first: whoever opened it has changed the claim already, or cannot do so any more, since the
// claim was changed by whoever asks for something else.
func (e *Engine) recordExceeded(ctx context.Context, target resize, shortages []ledger.Shortage) (again bool, err error) {
	claim := target.claim
	if _, known := e.Store.ReservationOf(claim.Spec.ConsumerRef, target.amendment[0].Key); known {
		return true, e.endInFlight(ctx, claim)
	}
	return false, e.setResizePending(ctx, claim, quotav1alpha1.ReasonQuotaExceeded, message.Of(claim.Spec.ConsumerRef, shortages).Sentences(e.Catalog,
		"This is in addition to what the claim holds, which it keeps; it is granted by itself once there is room."))
}

// endInFlight ends the amendment of a claim that says what it holds from now on, if there is one.
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

// await records why a claim does not hold yet what it is to hold.
func (e *Engine) setResizePending(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reason, message string) error {
	before := claim.Status.DeepCopy()
	claims.SetResizePending(claim, reason, message)
	if equality.Semantic.DeepEqual(*before, claim.Status) {
		return nil
	}
	return e.updateStatus(ctx, claim)
}
