package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Materialize turns a reservation into a granted claim and settles it. Each step may already be done, by an attempt
// that ended early. It reports false if the reservation was a second one for a charged claim, and was cancelled.
func (e *Engine) Materialize(ctx context.Context, reservation ledgerstore.InFlight) (isMade bool, err error) {
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return false, err
	}
	stored, err := e.ensureClaim(ctx, claim, reservation)
	if err != nil || stored == nil {
		return false, err
	}
	if claimcache.StateOf(stored) != claimcache.Granted {
		if isCurrent, isMade, err := e.confirm(ctx, stored, reservation); !isCurrent || err != nil {
			return isMade, err
		}
		claims.Grant(stored, e.Catalog, time.Now())
		if err := e.Client.UpdateStatus(ctx, stored); err != nil {
			return false, fmt.Errorf("mark claim %s/%s as granted: %w", stored.Namespace, stored.Name, err)
		}
	}
	e.settle(stored, reservation)
	return true, nil
}

// confirm checks that the current ledger has the reservation of a claim before it is granted. Another process may have
// made a claim of the same reservation long ago, and released it, while this process stood still or its create was in
// flight. This claim would be granted without a charge, and its release would take the charge of another claim.
// Therefore confirm deletes it. If the claim was granted in between, it is made.
//
// The result stays valid until the claim is granted, or the claim will release nothing. A process that settles or
// releases the reservation first changes the claim, so the status can no longer be written here. A process that
// withdraws the reservation removes the claim.
func (e *Engine) confirm(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (isCurrent, isMade bool, err error) {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	isCurrent, err = e.isReserved(ctx, reservation)
	if err != nil {
		return false, false, fmt.Errorf("confirm that claim %s is charged: %w", name, err)
	}
	if isCurrent {
		return true, false, nil
	}
	live, err := e.Client.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("read claim %s: %w", name, err)
	case live.UID == claim.UID && claimcache.StateOf(live) == claimcache.Granted:
		return false, true, nil
	}
	return false, false, e.deleteClaim(ctx, name, claim.UID)
}

// ErrEarlierClaim means that an earlier claim, of another object or consumer, has the name of a new claim. The earlier
// claim is being removed.
var ErrEarlierClaim = errors.New("an earlier claim of that name is still there")

// ensureClaim returns the stored claim of the reservation, and creates it if necessary. It returns nil if the
// reservation is a second one for a charged claim.
//
// If the claim of another object has the name, the claim gets its alternative name.
func (e *Engine) ensureClaim(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	for _, name := range []string{claim.Name, otherName(claim, reservation)} {
		named := claim.DeepCopy()
		named.Name = name
		created, err := e.create(ctx, named, reservation)
		if !apierrors.IsAlreadyExists(err) {
			return created, err
		}
		stored, err := e.Client.Get(ctx, types.NamespacedName{Namespace: named.Namespace, Name: name})
		if err != nil {
			return nil, fmt.Errorf("read claim %s/%s: %w", named.Namespace, name, err)
		}
		switch {
		case sameOrigin(stored, claim) && sameReservation(stored, claim):
			return stored, nil
		case sameOrigin(stored, claim) && (stored.DeletionTimestamp != nil || claims.IsSuperseded(stored) || stored.Spec.ConsumerRef != claim.Spec.ConsumerRef):
			return nil, fmt.Errorf("claim %s/%s: %w", named.Namespace, name, ErrEarlierClaim)
		case sameOrigin(stored, claim):
			return nil, e.dedupe(ctx, stored, reservation)
		case isOfEarlierObject(stored, claim):
			return nil, fmt.Errorf("claim %s/%s: %w", named.Namespace, name, ErrEarlierClaim)
		}
	}
	return nil, fmt.Errorf("both names of claim %s/%s are taken by other claims", claim.Namespace, claim.Name)
}

// create creates a claim. It uses the system namespace if the claim's own namespace was deleted after the create was
// admitted, or denies claims: the charge needs a claim. The returned claim has the namespace.
func (e *Engine) create(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	created, err := e.Client.Create(ctx, claim)
	moves := isNamespaceGone(err)
	switch {
	case claim.Namespace == e.SystemNamespace:
		moves = false
	case err == nil:
		e.denials.end(claim.Namespace)
	case isDenial(err) && !moves:
		var made *quotav1alpha1.ResourceClaim
		var errFind error
		if made, moves, errFind = e.handleDenial(ctx, claim, reservation, err); made != nil || errFind != nil {
			return made, errFind
		}
	}
	if moves {
		claim.Namespace, claim.OwnerReferences = e.SystemNamespace, nil
		created, err = e.Client.Create(ctx, claim)
	}
	if err != nil {
		return nil, fmt.Errorf("create claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return created, nil
}

// isNamespaceGone reports whether a claim could not be created because of its namespace.
func isNamespaceGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
