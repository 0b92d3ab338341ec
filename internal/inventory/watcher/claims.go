package watcher

import (
	"time"

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

var _ claimcache.Follower = (*kindWatch)(nil)

// ListBegins implements [claimcache.Follower].
func (k *kindWatch) ListBegins() { k.noteList() }

// WatchBegins implements [claimcache.Follower].
func (k *kindWatch) WatchBegins(opened watch.Interface) watch.Interface {
	return k.freshness.follow(opened)
}

// objectOf returns a claim as the inventory knows it, without what it demands.
func objectOf(claim *claimcache.Claim) inventory.Object {
	return inventory.Object{
		NamespacedName: claim.NamespacedName, UID: types.UID(claims.IDOf(claim)), Version: claim.Version, Created: time.Unix(claim.Created, 0),
	}
}

// countClaim returns a claim with what it demands. The API server refuses amounts that cannot be read. A claim with one
// would demand nothing, and the others would still count.
func (w *Watcher) countClaim(claim *claimcache.Claim) *counted {
	o := &counted{Object: objectOf(claim), isDeleting: claim.Deleting}
	charges, err := claims.ChargesOf(claim)
	if err != nil {
		w.Log.Error(err, "a claim demands nothing, because it cannot be read", "claim", o.NamespacedName.String())
	}
	if len(charges) == 0 || err != nil {
		return o
	}

	w.claimSubjects.Add(o.NamespacedName, claims.SubjectOf(claim))
	o.Demands = []inventory.Demand{{Consumer: claim.Consumer(), Charges: charges}}
	return o
}

// claimSubject returns the subject of a claim in the journal.
func (w *Watcher) claimSubject(name types.NamespacedName) string {
	if subject, isKnown := w.claimSubjects.Get(name); isKnown {
		return subject.(string)
	}
	return claims.ClaimSubject(name)
}
