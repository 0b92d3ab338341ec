package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Decide decides a directly created claim, records the result in its status, and reports whether it granted the
// claim. It ignores a deleted claim, a granted one, and one of another consumer. If charges in release may make room
// for the claim, it waits or, with a context of [ledgerstore.WithRetryUntil], returns [ledgerstore.ErrReleasing]. The
// caller must not decide, resize or release the same claim at the same time.
func (e *Engine) Decide(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (isGranted bool, err error) {
	var claim *quotav1alpha1.ResourceClaim
	var invalid error
	outcome, err := e.Store.Apply(ctx, consumer, ledgerstore.Request{Verify: func(ctx context.Context) ([]ledger.Reservation, error) {
		invalid = nil
		var err error
		if claim, err = e.decidable(ctx, name); claim == nil || err != nil {
			return nil, err
		}
		if claim.Spec.ConsumerRef != consumer {
			claim = nil // another claim of the same name, with its own decision
			return nil, nil
		}
		var reservation ledger.Reservation
		if reservation, invalid = e.reservationOf(claim); invalid != nil {
			return nil, nil
		}
		return []ledger.Reservation{reservation}, nil
	}})
	decision := outcome.Single()
	switch {
	case err != nil:
		return false, fmt.Errorf("decide claim %s: %w", name, err)
	case claim == nil:
		return false, nil
	case invalid != nil:
		claims.Reject(claim, progress.Waiting, invalid.Error(), time.Now())
		return false, e.updateStatus(ctx, claim)
	default:
		err := e.conclude(ctx, claim, ledgerstore.ClaimKey(string(claim.UID)), decision)
		return err == nil && decision.Code == ledger.Admitted, err
	}
}

// decidable reads an undecided claim. A claim lacks the finalizer if somebody created it without the webhook.
// decidable adds it first: without it, nobody would ever release the granted charges.
func (e *Engine) decidable(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.ResourceClaim, error) {
	claim, err := e.undecided(ctx, name)
	if claim == nil || err != nil || claimcache.HasFinalizer(claim) {
		return claim, err
	}
	if err := e.Client.AddFinalizer(ctx, claim); err != nil {
		return nil, fmt.Errorf("add the finalizer: %w", err)
	}
	return e.undecided(ctx, name)
}

// undecided reads a claim. It returns nil if there is nothing left to decide.
func (e *Engine) undecided(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.ResourceClaim, error) {
	claim, err := e.Client.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s: %w", name, err)
	}
	if claim.DeletionTimestamp != nil || claimcache.IsFromPolicy(claim) || claimcache.StateOf(claim) == claimcache.Granted {
		return nil, nil
	}
	return claim, nil
}

// reservationOf returns the reservation for a claim, or the reason why it is invalid.
func (e *Engine) reservationOf(claim *quotav1alpha1.ResourceClaim) (ledger.Reservation, error) {
	if err := e.Catalog.CheckClaim(&claim.Spec); err != nil {
		return ledger.Reservation{}, err
	}
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return ledger.Reservation{}, err
	}
	return ledger.Reservation{
		Key:        ledgerstore.ClaimKey(string(claim.UID)),
		ReservedAt: time.Now().Unix(),
		Charges:    charges,
		Claim:      claims.Reference(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}),
		Subject:    claims.SubjectOf(claim),
		Actor:      claim.Annotations[quotav1alpha1.AnnotationChangedBy],
	}, nil
}

// conclude records a decision in the claim's status. It settles an admitted reservation.
func (e *Engine) conclude(ctx context.Context, claim *quotav1alpha1.ResourceClaim, key string, decision ledger.Decision) error {
	switch decision.Code {
	case ledger.Admitted:
		claims.Grant(claim, e.Catalog, time.Now())
		if err := e.updateStatus(ctx, claim); err != nil {
			return err
		}
		e.Store.Settle(claim.Spec.ConsumerRef, key, decision.Sequence)
		return nil
	case ledger.Exceeded:
		wasWaiting := claimcache.StateOf(claim) == claimcache.Waiting
		claims.Deny(claim, e.Catalog, decision.Shortages, time.Now())
		if err := e.updateStatus(ctx, claim); err != nil || wasWaiting {
			return err
		}
		e.reportWaiting(claim)
		return nil
	default:
		err := message.Impossible(claim.Spec.ConsumerRef, decision.Code)
		if full := (*message.FullError)(nil); errors.As(err, &full) {
			claims.DenyFull(claim, full, time.Now())
		} else {
			claims.Reject(claim, progress.Stalled, err.Error(), time.Now())
		}
	}
	return e.updateStatus(ctx, claim)
}

// reportWaiting records an event on a claim that begins to wait.
func (e *Engine) reportWaiting(claim *quotav1alpha1.ResourceClaim) {
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	if e.Events == nil || granted == nil {
		return
	}
	regarding := &corev1.ObjectReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
	e.Events.Eventf(regarding, nil, corev1.EventTypeWarning, quotav1alpha1.EventQuotaExceeded, "Decide", "%s", granted.Message)
}

func (e *Engine) updateStatus(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	if err := e.Client.UpdateStatus(ctx, claim); err != nil {
		return fmt.Errorf("update the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// Fit returns the claims of a consumer that fit into its ledger together, in the given order. Some claims wait for
// their grant, others for a resize. The others would not fit even after a grant of the claims before them. It returns
// claims without a possible decision as invalid.
func (e *Engine) Fit(ctx context.Context, consumer quotav1alpha1.ConsumerRef, waiting []*claimcache.Claim) (fitting, invalid []*claimcache.Claim, err error) {
	reservations := make([]ledger.Reservation, 0, len(waiting))
	valid := make([]*claimcache.Claim, 0, len(waiting))
	for _, claim := range waiting {
		reservation, err := e.reservationOfWaiting(claim)
		if err != nil {
			invalid = append(invalid, claim)
			continue
		}
		reservations, valid = append(reservations, reservation), append(valid, claim)
	}
	outcome, err := e.Store.Apply(ctx, consumer, ledgerstore.Request{Reservations: reservations, Separately: true, DryRun: ledgerstore.Dry})
	if err != nil {
		return nil, invalid, err
	}
	for i, claim := range valid {
		if outcome.Decisions[i].Code == ledger.Admitted {
			fitting = append(fitting, claim)
		}
	}
	return fitting, invalid, nil
}

// reservationOfWaiting returns the reservation for a waiting claim, or the reason why it is invalid.
func (e *Engine) reservationOfWaiting(known *claimcache.Claim) (ledger.Reservation, error) {
	claim := quotav1alpha1.ResourceClaim{Spec: known.Spec()}
	claim.Namespace, claim.Name, claim.UID = known.Namespace, known.Name, known.UID
	if known.HasResize() {
		return e.resizeReservation(&claim, known.Resize())
	}
	return e.reservationOf(&claim)
}

// Leftover is the remaining work on a reservation of a directly created claim.
type Leftover int

const (
	// LeftNothing means that the reservation has ended, or ends with its claim.
	LeftNothing Leftover = iota
	// LeftToDecide means that the status of the claim does not have the decision yet.
	LeftToDecide
	// LeftToResize means that the claim may not have its reserved amounts yet.
	LeftToResize
)

// Finish finishes a reservation left in flight by a dead process. It settles the reservation of a granted claim and
// cancels the reservation of a deleted claim. For all others it returns the caller's remaining work, and the claim.
func (e *Engine) Finish(ctx context.Context, reservation ledgerstore.InFlight) (Leftover, types.NamespacedName, error) {
	name, err := claims.ReferenceOf(reservation.Claim)
	if err != nil {
		return LeftNothing, name, err
	}
	claim, err := e.Client.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && !isOf(reservation, claim):
		return LeftNothing, name, e.Store.Cancel(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	case err != nil:
		return LeftNothing, name, err
	case claim.DeletionTimestamp != nil:
		return LeftNothing, name, nil // the release ends the reservation
	case ledgerstore.IsAmendment(reservation.Key):
		return LeftToResize, name, nil
	case claimcache.StateOf(claim) == claimcache.Granted:
		e.Store.Settle(reservation.Consumer, reservation.Key, reservation.Sequence)
		return LeftNothing, name, nil
	default:
		return LeftToDecide, name, nil
	}
}

// isOf reports whether a reservation belongs to a claim.
func isOf(reservation ledgerstore.InFlight, claim *quotav1alpha1.ResourceClaim) bool {
	uid := string(claim.UID)
	return reservation.Key == ledgerstore.ClaimKey(uid) || reservation.Key == ledgerstore.ResizeKey(uid)
}
