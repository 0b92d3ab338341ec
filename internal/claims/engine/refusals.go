package engine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// handleRefusal decides about a claim that its namespace has refused: either it is there already, or it moves to the
// system namespace. Otherwise the engine retries the create.
func (e *Engine) handleRefusal(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight, why error) (isThere, moves bool, err error) {
	// A refusal comes before the API server checks whether the claim exists.
	if made, err := e.find(ctx, claim, reservation, claim.Namespace, e.SystemNamespace); made != nil || err != nil {
		return made != nil, false, err
	}
	times := e.refusals.Add(claim.Namespace)
	if times == claims.RefusalsMax {
		e.reportRefusals(claim, reservation, why)
	}
	return false, times >= claims.RefusalsMax, nil
}

// reportRefusals records the move of a namespace's claims to the system namespace.
func (e *Engine) reportRefusals(claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight, why error) {
	e.Log.Info("a namespace denies claims; Bursar creates them in the system namespace", "namespace", claim.Namespace, "err", why.Error())
	intent, err := claims.IntentOf(reservation.Claim)
	if e.Events == nil || err != nil {
		return
	}
	object := evaluator.Object{Kind: intent.Kind, Name: intent.Object, UID: types.UID(ledgerstore.ObjectUID(reservation.Key))}
	e.Events.Eventf(object.Reference(), nil, corev1.EventTypeWarning, quotav1alpha1.EventClaimsRefused, "Claim",
		"namespace %s denies ResourceClaims, so the claims of its objects are in namespace %s, and are still charged: %v", claim.Namespace, e.SystemNamespace, why)
}
