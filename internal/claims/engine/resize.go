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

// Resize decides the requested resize of a granted claim, and completes its status after an earlier one. It returns
// [ledgerstore.ErrReleasing] as [Engine.Decide] does. The caller must not decide, resize or release the same claim at
// the same time.
//
// The ledger holds the growth until it observes the claim with its new requests. These are written only over the
// version that was decided, as in Decide. The status follows: if that fails, the claim is behind until another call.
func (e *Engine) Resize(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) error {
	claim, err := e.resizable(ctx, name, consumer)
	if claim == nil || err != nil {
		return err
	}
	requests := claimcache.ResizeOf(claim)
	if requests == nil {
		return e.amendClaim(ctx, claim, claim.Spec.Requests)
	}

	resized := claim.DeepCopy()
	resized.Spec.Requests = requests
	growth, invalid := e.reservationOf(resized, claim.Spec.Requests)
	switch {
	case invalid != nil:
		return e.setResizePending(ctx, claim, quotav1alpha1.ReasonValidationFailed, invalid.Error())
	case len(growth.Charges) == 0:
		return e.amendClaim(ctx, claim, requests)
	}
	outcome, err := e.Store.Apply(ctx, consumer, ledgerstore.Request{Reservations: []ledger.Reservation{growth}})
	if err != nil {
		return fmt.Errorf("resize claim %s: %w", name, err)
	}

	switch decision := outcome.Single(); decision.Code {
	case ledger.Admitted:
		return e.amendClaim(ctx, claim, requests)
	case ledger.Exceeded:
		return e.setResizePending(ctx, claim, quotav1alpha1.ReasonQuotaExceeded, message.Of(consumer, decision.Shortages).Sentences(e.Catalog,
			"This is in addition to the present amounts of the claim. It keeps those, and gets the rest by itself once there is room."))
	default:
		err, reason := message.Impossible(consumer, decision.Code), quotav1alpha1.ReasonValidationFailed
		if full := (*message.FullError)(nil); errors.As(err, &full) {
			reason = quotav1alpha1.ReasonQuotaExceeded
		}
		return e.setResizePending(ctx, claim, reason, err.Error())
	}
}

// resizable reads a granted claim of a consumer. It returns nil if there is nothing to resize.
func (e *Engine) resizable(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (*quotav1alpha1.ResourceClaim, error) {
	claim, err := e.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s: %w", name, err)
	}
	if claim.DeletionTimestamp != nil || claim.Spec.ConsumerRef != consumer || claimcache.IsFromPolicy(claim) || claimcache.StateOf(claim) != claimcache.Granted {
		return nil, nil
	}
	return claim, nil
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

// setResizePending records why a resize is pending, beside what the claim holds.
func (e *Engine) setResizePending(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reason, message string) error {
	before := claim.Status.DeepCopy()
	claims.Grant(claim, e.Catalog, time.Now()) // the status of an earlier resize may be missing
	claims.SetResizePending(claim, reason, message)
	if equality.Semantic.DeepEqual(*before, claim.Status) {
		return nil
	}
	return e.updateStatus(ctx, claim)
}
