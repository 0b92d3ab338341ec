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
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Materialize makes the claim of a policy's reservation, unless it is there. Any process may do so at any time, also
// several at once, because all of them give the claim the same name. The ledger ends the reservation once it observes
// the claim.
func (e *Engine) Materialize(ctx context.Context, reservation ledgerstore.InFlight) error {
	claim, err := claims.FromReservation(reservation)
	if err != nil {
		return err
	}
	claim.Generation = 1 // as the API server gives it to a new object
	claims.Grant(claim, e.Catalog, time.Now())
	return e.ensureClaim(ctx, claim, reservation)
}

// ErrEarlierClaim means that an earlier claim, of another object, has the name of a new claim. The engine is removing
// the earlier claim.
var ErrEarlierClaim = errors.New("an earlier claim of that name is still there")

// ensureClaim creates the claim of a reservation if necessary. If another claim has the name, the claim gets its
// alternative name.
func (e *Engine) ensureClaim(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) error {
	for _, name := range namesOf(claim, reservation) {
		named := claim.DeepCopy()
		named.Name = name
		err := e.create(ctx, named, reservation)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}

		stored, err := e.Client.Get(ctx, types.NamespacedName{Namespace: named.Namespace, Name: name})
		switch {
		case err != nil:
			return fmt.Errorf("read claim %s/%s: %w", named.Namespace, name, err)
		case sameOrigin(stored, claim) && !claims.IsSuperseded(stored):
			return nil
		case sameOrigin(stored, claim), isOfEarlierObject(stored, claim):
			return fmt.Errorf("claim %s/%s: %w", named.Namespace, name, ErrEarlierClaim)
		}
	}
	return fmt.Errorf("both names of claim %s/%s are taken by other claims", claim.Namespace, claim.Name)
}

// create creates a claim. It uses the system namespace if the claim's own namespace denies claims, or has disappeared
// since the admission of the create: the charge needs a claim. It sets the namespace in the claim.
func (e *Engine) create(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) error {
	_, err := e.Client.Create(ctx, claim)
	moves := isNamespaceGone(err)
	switch {
	case claim.Namespace == e.SystemNamespace:
		moves = false
	case err == nil:
		e.refusals.End(claim.Namespace)
	case claims.IsRefusal(err) && !moves:
		var isThere bool
		var errFind error
		if isThere, moves, errFind = e.handleRefusal(ctx, claim, reservation, err); isThere || errFind != nil {
			return errFind
		}
	}
	if moves {
		claim.Namespace, claim.OwnerReferences = e.SystemNamespace, nil
		_, err = e.Client.Create(ctx, claim)
	}
	if err != nil {
		return fmt.Errorf("create claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// isNamespaceGone reports whether the create of a claim failed because of its namespace.
func isNamespaceGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
