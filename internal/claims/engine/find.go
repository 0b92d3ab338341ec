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

// find reads the claim of a reservation from the API server, under every name that [Engine.Materialize] may have used
// in some namespaces. It returns nil if there is none.
func (e *Engine) find(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight, namespaces ...string) (*quotav1alpha1.ResourceClaim, error) {
	for _, namespace := range namespaces {
		for _, name := range namesOf(claim, reservation) {
			stored, err := e.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, fmt.Errorf("read claim %s/%s: %w", namespace, name, err)
			case sameOrigin(stored, claim):
				return stored, nil
			}
		}
	}
	return nil, nil
}

// namesOf returns the possible names of a reservation's claim. It gets the second one if the first is taken.
func namesOf(claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) []string {
	uid := types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
	return []string{claim.Name, claims.GeneratedName(claim.Name+"-", reservation.Key, uid)}
}

// sameOrigin reports whether both claims are of one policy and one object.
func sameOrigin(a, b *quotav1alpha1.ResourceClaim) bool {
	return claimcache.IsFromPolicy(a) && claims.IDOf(claimcache.Compact(a)) == claims.IDOf(claimcache.Compact(b))
}

// isOfEarlierObject reports whether the same policy made the stored claim for an earlier object of the same name.
func isOfEarlierObject(stored, claim *quotav1alpha1.ResourceClaim) bool {
	return claimcache.IsFromPolicy(stored) && claims.PolicyOf(stored) == claims.PolicyOf(claim) &&
		stored.Spec.ResourceRef == claim.Spec.ResourceRef && !sameOrigin(stored, claim)
}
