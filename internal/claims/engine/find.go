package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// findClaim returns the claim of a reservation, or nil.
func (e *Engine) findClaim(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) (*quotav1alpha1.ResourceClaim, error) {
	return e.find(ctx, claim, reservation, func(stored *quotav1alpha1.ResourceClaim) bool {
		return sameOrigin(stored, claim) && sameReservation(stored, claim)
	})
}

// find reads a claim from the API server, under every name that Materialize may have used.
func (e *Engine) find(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight, match func(stored *quotav1alpha1.ResourceClaim) bool) (*quotav1alpha1.ResourceClaim, error) {
	for _, name := range []types.NamespacedName{
		{Namespace: claim.Namespace, Name: claim.Name},
		{Namespace: claim.Namespace, Name: otherName(claim, reservation)},
		{Namespace: e.SystemNamespace, Name: claim.Name},
		{Namespace: e.SystemNamespace, Name: otherName(claim, reservation)},
	} {
		stored, err := e.Client.Get(ctx, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read claim %s: %w", name, err)
		}
		if match(stored) {
			return stored, nil
		}
	}
	return nil, nil
}

// otherName returns the alternative name of a reservation's claim. The claim gets it if its own name is taken.
func otherName(claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) string {
	return claims.GeneratedName(claim.Name+"-", reservation.Key, types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID]))
}

// sameOrigin reports whether both claims are of one policy and one object.
func sameOrigin(a, b *quotav1alpha1.ResourceClaim) bool {
	return claimcache.IsFromPolicy(a) &&
		a.Annotations[quotav1alpha1.AnnotationResourceUID] == b.Annotations[quotav1alpha1.AnnotationResourceUID] &&
		claims.PolicyOf(a) == claims.PolicyOf(b)
}

// sameReservation reports whether both claims have one reservation. Sequences are unique per consumer.
func sameReservation(a, b *quotav1alpha1.ResourceClaim) bool {
	return a.Spec.ConsumerRef == b.Spec.ConsumerRef && claims.SequenceOf(a) == claims.SequenceOf(b)
}

// isOfEarlierObject reports whether the same policy made the stored claim for an earlier object of the same name.
func isOfEarlierObject(stored, claim *quotav1alpha1.ResourceClaim) bool {
	return claimcache.IsFromPolicy(stored) && claims.PolicyOf(stored) == claims.PolicyOf(claim) &&
		stored.Spec.ResourceRef == claim.Spec.ResourceRef &&
		stored.Annotations[quotav1alpha1.AnnotationResourceUID] != claim.Annotations[quotav1alpha1.AnnotationResourceUID]
}
