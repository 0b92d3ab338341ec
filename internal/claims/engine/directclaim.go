package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Decide decides a directly created claim, records the result in its status, and reports whether it granted the
// claim. It ignores a deleted claim, a granted one, and one of another consumer. If charges in release may make room
// for the claim, it waits or, with a context of [ledgerstore.WithRetryUntil], returns [ledgerstore.ErrReleasing]. The
// caller must not decide, resize or release the same claim at the same time.
//
// The ledger holds the charges until it observes the granted claim. The status is written only over the version that
// was decided. So of any number of processes that try, one succeeds. The ledger ends the requests of the others as soon
// as it observes a later version.
func (e *Engine) Decide(ctx context.Context, name types.NamespacedName, consumer quotav1alpha1.ConsumerRef) (isGranted bool, err error) {
	claim, err := e.decidable(ctx, name)
	if err != nil {
		return false, fmt.Errorf("decide claim %s: %w", name, err)
	}
	if claim == nil || claim.Spec.ConsumerRef != consumer { // or another claim of the same name, with its own decision
		return false, nil
	}

	reservation, invalid := e.reservationOf(claim, nil)
	if invalid != nil {
		claims.Reject(claim, progress.Waiting, invalid.Error(), time.Now())
		return false, e.updateStatus(ctx, claim)
	}
	outcome, err := e.Store.Apply(ctx, consumer, ledgerstore.Request{Reservations: []ledger.Reservation{reservation}})
	if err != nil {
		return false, fmt.Errorf("decide claim %s: %w", name, err)
	}

	decision := outcome.Single()
	err = e.conclude(ctx, claim, decision)
	return err == nil && decision.Code == ledger.Admitted, err
}

// decidable reads an undecided claim. A claim lacks the finalizer if somebody created it without the webhook.
// decidable adds it first: without it, the charges would return although the object exists.
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

// reservationOf returns the reservation of a claim for what its requests exceed the held ones by, or the reason why it
// is invalid. The ledger ends the reservation once it observes a later version of the claim. There are no charges if
// nothing becomes more.
func (e *Engine) reservationOf(claim *quotav1alpha1.ResourceClaim, held []quotav1alpha1.ResourceRequest) (r ledger.Reservation, err error) {
	if err := e.Catalog.CheckClaim(&claim.Spec); err != nil {
		return r, err
	}

	before, err := claims.Charges(held)
	if err != nil {
		return r, err
	}
	after, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return r, err
	}
	if code := (&ledger.Reservation{Key: string(claim.UID), Charges: after}).Check(); code != ledger.Admitted {
		return r, message.Impossible(claim.Spec.ConsumerRef, code)
	}

	version, err := ledger.ParseVersion(claim.ResourceVersion)
	if err != nil {
		return r, err
	}

	return ledger.Reservation{
		Key:        ledgerstore.ClaimKey(string(claim.UID), version),
		ReservedAt: time.Now().Unix(),
		Charges:    ledger.Growth(before, after),
		Awaits:     &ledger.Awaited{Kind: inventory.Claims, ID: string(claim.UID), After: version},
		Claim:      claims.Reference(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}),
		Subject:    claims.SubjectOf(claimcache.Compact(claim)),
		Actor:      claim.Annotations[quotav1alpha1.AnnotationChangedBy],
	}, nil
}

// conclude records a decision in the claim's status.
func (e *Engine) conclude(ctx context.Context, claim *quotav1alpha1.ResourceClaim, decision ledger.Decision) error {
	switch decision.Code {
	case ledger.Admitted:
		claims.Grant(claim, e.Catalog, time.Now())
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
		if len(reservations[i].Charges) == 0 || outcome.Decisions[i].Code == ledger.Admitted {
			fitting = append(fitting, claim)
		}
	}
	return fitting, invalid, nil
}

// reservationOfWaiting returns the reservation for a waiting claim, or the reason why it is invalid.
func (e *Engine) reservationOfWaiting(known *claimcache.Claim) (ledger.Reservation, error) {
	claim := quotav1alpha1.ResourceClaim{Spec: known.Spec()}
	claim.Namespace, claim.Name, claim.UID = known.Namespace, known.Name, known.UID
	claim.ResourceVersion = strconv.FormatUint(uint64(known.Version), 10)
	if !known.HasResize() {
		return e.reservationOf(&claim, nil)
	}
	held := claim.Spec.Requests
	claim.Spec.Requests = known.Resize()
	return e.reservationOf(&claim, held)
}
