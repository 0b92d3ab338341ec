package lifecycle

import (
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// settle settles the reservation of a granted claim once the claim is in the cache. So at any time one of both tells
// what an object holds, and a create that comes right after the deletion of the object waits for it. Before the first
// list of claims, nothing but this process puts its claims into the cache.
func (c *Controller) settle(claim *quotav1alpha1.ResourceClaim, reservation ledgerstore.InFlight) {
	c.mu.Lock()
	c.granted[claim.UID] = reservation
	c.mu.Unlock()
	c.Claims.Note(claim)
	seen := c.Claims.Get(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
	if seen != nil && seen.UID == claim.UID {
		c.settleSeen(claim.UID)
	}
}

// settleSeen settles the reservation of a claim that is in the cache, if it is granted already.
func (c *Controller) settleSeen(claim types.UID) {
	c.mu.Lock()
	reservation, ok := c.granted[claim]
	delete(c.granted, claim)
	c.mu.Unlock()
	if ok {
		c.Store.Settle(reservation.Consumer, reservation.Key, reservation.Sequence)
	}
}

// forgetEnded drops the granted claims whose reservations ended in another way: they went away
// before they were seen.
func (c *Controller) forgetEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for claim, reservation := range c.granted {
		if !c.Engine.IsInFlight(reservation) {
			delete(c.granted, claim)
		}
	}
}
