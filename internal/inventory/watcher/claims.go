package watcher

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
)

// claimSubjectsMax is the number of claims whose subjects are known for the journal, also after their deletion.
const claimSubjectsMax = 16384

// watchClaims begins to watch claims, if that has not begun.
func (w *Watcher) watchClaims() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current[inventory.Claims] == nil && w.next[inventory.Claims] == nil {
		resource := quotav1alpha1.GroupVersion.WithResource("resourceclaims")
		claims := w.newWatch(inventory.ClaimKind, resource, catalog.Counted{}, function{})
		w.next[inventory.Claims] = claims
		go w.Claims.RunWith(claims.ctx, w.ClaimClient, claims)
	}
}

var _ claimcache.Receiver = (*kindWatch)(nil)

// ListBegins implements [claimcache.Receiver].
func (k *kindWatch) ListBegins() { k.noteList() }

// WatchBegins implements [claimcache.Receiver].
func (k *kindWatch) WatchBegins(opened watch.Interface) watch.Interface {
	return k.freshness.follow(opened)
}

// EventBegins implements [claimcache.Receiver].
func (k *kindWatch) EventBegins() (end func()) { return k.freshness.begin() }

// countClaim returns a claim with what it demands.
func (w *Watcher) countClaim(claim *claimcache.Claim) *counted {
	o, err := claims.CountedObjectOf(claim)
	if err != nil {
		w.Log.Error(err, "a claim demands nothing")
	}
	if len(o.Demands) > 0 {
		w.claimSubjects.Add(o.NamespacedName, claims.SubjectOf(claim))
	}
	return &counted{Object: o, isDeleting: claim.Deleting}
}

// claimSubject returns the subject of a claim in the journal.
func (w *Watcher) claimSubject(name types.NamespacedName) string {
	if subject, isKnown := w.claimSubjects.Get(name); isKnown {
		return subject.(string)
	}
	return claims.ClaimSubject(name)
}
