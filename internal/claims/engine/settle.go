package engine

import (
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// settle settles the reservation of a granted claim once the claim is in the cache. So at any time the cache or the
// ledger has the charges of an object, and a create right after the deletion of the object waits for them. Before the
// first list of claims, only this process adds its claims to the cache.
func (e *Engine) settle(claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) {
	e.granted.add(claim.UID, reservation)
	e.Claims.RecordWrite(claim)
	seen := e.Claims.Get(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
	if seen != nil && seen.UID == claim.UID {
		e.Seen(claim.UID)
	}
}

// Seen settles the reservation of a granted claim once the claim is in the cache.
func (e *Engine) Seen(claim types.UID) {
	reservation, ok := e.granted.take(claim)
	if !ok {
		return
	}
	e.Store.SettleOr(reservation.Consumer, reservation.Key, reservation.Sequence, func() {
		if o, ok := ObjectOf(reservation); ok {
			e.queue.Add(o) // to remove the claim
		}
	})
}
