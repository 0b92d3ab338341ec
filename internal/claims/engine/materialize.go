package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Materialize turns a reservation into a granted claim and settles it. An earlier attempt may have done each step
// already. It reports false if the reservation has ended, or was a second one for a charged claim.
//
// A sequence makes at most one claim: only the owner of a reservation sends its claim to the API server, and only
// once. To send it again, because the outcome is unknown or another process may have sent it, a process first takes
// the reservation over with a new sequence. So a claim has its charge unless somebody withdrew its sequence. This
// holds even for a claim created long after its reservation ended, by a process that stood still.
func (e *Engine) Materialize(ctx context.Context, reservation ledgerstore.InFlight) (isMade bool, err error) {
	stored, reservation, err := e.made(ctx, reservation)
	if err != nil {
		return false, err
	}
	if stored == nil && !reservation.IsOwn {
		return false, nil
	}
	if stored == nil {
		claim, err := claims.FromReservation(reservation)
		if err != nil {
			return false, err
		}
		claim.Generation = 1 // as the API server gives it to a new object
		claims.Grant(claim, e.Catalog, time.Now())
		if stored, err = e.ensureClaim(ctx, claim, reservation); err != nil || stored == nil {
			return false, err
		}
	}
	e.settle(stored, reservation)
	return true, nil
}

// made returns the claim of a reservation if an earlier attempt has sent it and it exists. Otherwise this process
// takes the reservation over. made also returns the reservation in its present state: an ended one is not its own.
func (e *Engine) made(ctx context.Context, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, ledgerstore.InFlight, error) {
	if reservation.IsOwn && !e.sent.has(reservation) {
		return nil, reservation, nil
	}
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return nil, reservation, err
	}
	stored, err := e.findClaim(ctx, claim, reservation)
	if stored != nil || err != nil {
		return stored, reservation, err
	}
	taken, _, err := e.Store.TakeOver(ctx, reservation.Consumer, reservation.Key, reservation.Sequence)
	if err != nil {
		return nil, reservation, fmt.Errorf("take over the reservation of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil, taken, nil
}

// ErrEarlierClaim means that an earlier claim, of another object or consumer, has the name of a new claim. The engine
// is removing the earlier claim.
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
			return stored, nil // an attempt without an answer made it
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

// create creates a claim. It uses the system namespace if the claim's own namespace denies claims, or has disappeared
// since the admission of the create: the charge needs a claim. The returned claim has the namespace.
func (e *Engine) create(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	created, err := e.send(ctx, claim, reservation)
	moves := isNamespaceGone(err)
	switch {
	case claim.Namespace == e.SystemNamespace:
		moves = false
	case err == nil:
		e.refusals.End(claim.Namespace)
	case claims.IsRefusal(err) && !moves:
		var made *quotav1alpha1.ResourceClaim
		var errFind error
		if made, moves, errFind = e.handleRefusal(ctx, claim, reservation, err); made != nil || errFind != nil {
			return made, errFind
		}
	}
	if moves {
		claim.Namespace, claim.OwnerReferences = e.SystemNamespace, nil
		created, err = e.send(ctx, claim, reservation)
	}
	if err != nil {
		return nil, fmt.Errorf("create claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return created, nil
}

// send creates a claim on the API server, and records the request unless the API server rejected the claim.
func (e *Engine) send(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	e.sent.add(reservation)
	created, err := e.Client.Create(ctx, claim)
	if isRejection(err) {
		e.sent.remove(reservation)
	}
	return created, err
}

// isRejection reports whether, by its answer, the API server did not store an object, and will not do so later.
func isRejection(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// isNamespaceGone reports whether the create of a claim failed because of its namespace.
func isNamespaceGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
