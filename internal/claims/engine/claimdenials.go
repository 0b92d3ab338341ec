package engine

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// denialsMax is how often in a row a namespace may deny claims before the engine makes them in the system namespace.
	// The engine still tries its own namespace first for each claim, and so uses the namespace again once it accepts
	// claims.
	denialsMax = 3
)

// claimDenials counts how often in a row each namespace has denied claims. The zero value is empty.
type claimDenials struct {
	mu          sync.Mutex
	byNamespace map[string]int
}

// add counts a denial and returns the new count.
func (r *claimDenials) add(namespace string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byNamespace == nil {
		r.byNamespace = map[string]int{}
	}
	r.byNamespace[namespace]++
	return r.byNamespace[namespace]
}

// end resets the count of a namespace after it accepted a claim.
func (r *claimDenials) end(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byNamespace, namespace)
}

// isDenial reports whether an error means that a ResourceQuota or another webhook denied a create. A webhook may answer
// with any of these.
func isDenial(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

// handleDenial decides about a claim after a denial by its namespace. It returns an already existing claim, or true
// if the claim belongs in the system namespace. Otherwise the engine retries the create.
func (e *Engine) handleDenial(ctx context.Context, claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight, why error) (made *quotav1alpha1.ResourceClaim, moves bool, err error) {
	// A denial comes before the API server checks whether the claim exists.
	if made, err = e.findClaim(ctx, claim, reservation); made != nil || err != nil {
		return made, false, err
	}
	times := e.denials.add(claim.Namespace)
	if times == denialsMax {
		e.reportDenials(claim, reservation, why)
	}
	return nil, times >= denialsMax, nil
}

// reportDenials records the move of a namespace's claims to the system namespace.
func (e *Engine) reportDenials(claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight, why error) {
	e.Log.Info("a namespace denies claims; Bursar creates them in the system namespace", "namespace", claim.Namespace, "err", why.Error())
	intent, err := claims.IntentOf(reservation.Claim)
	if e.Events == nil || err != nil {
		return
	}
	object := evaluator.Object{Kind: intent.Kind, Name: intent.Object, UID: types.UID(ledgerstore.ObjectUID(reservation.Key))}
	e.Events.Eventf(object.Reference(), nil, corev1.EventTypeWarning, quotav1alpha1.EventClaimsRefused, "Claim",
		"namespace %s denies ResourceClaims, so the claims of its objects are in namespace %s, and are still charged: %v", claim.Namespace, e.SystemNamespace, why)
}
