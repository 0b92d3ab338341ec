package watcher

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
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
		claims.run()
	}
}

// ofRecord is a source of claims without views.
type ofRecord struct{ claims dynamic.ResourceInterface }

// List implements [source].
func (s ofRecord) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	o.LabelSelector = claimcache.OfRecord().String()
	return s.claims.List(ctx, o) //nolint:wrapcheck // the callers do
}

// Watch implements [source].
func (s ofRecord) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector = claimcache.OfRecord().String()
	return s.claims.Watch(ctx, o) //nolint:wrapcheck // the callers do
}

// identityOf returns a claim as the inventory knows it, without what it demands.
func identityOf(object *unstructured.Unstructured) (claim *quotav1alpha1.ResourceClaim, id types.UID, err error) {
	claim = &quotav1alpha1.ResourceClaim{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, claim); err != nil {
		return nil, object.GetUID(), fmt.Errorf("read claim %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return claim, types.UID(claims.IDOf(claim)), nil
}

// countClaim sets the ID of a claim, and what it demands. The API server refuses claims that cannot be read, so that
// one of them demands nothing, and the others still count.
func (w *Watcher) countClaim(o *counted, object *unstructured.Unstructured) {
	claim, id, err := identityOf(object)
	var charges []ledger.Charge
	if err == nil {
		charges, err = claims.ChargesOf(claim)
	}
	o.UID = id
	if err != nil {
		w.Log.Error(err, "a claim demands nothing, because it cannot be read", "claim", o.NamespacedName.String())
	}
	if len(charges) == 0 || err != nil {
		return
	}

	w.claimSubjects.Add(o.NamespacedName, claims.SubjectOf(claim))
	o.Demands = []inventory.Demand{{Consumer: claim.Spec.ConsumerRef, Charges: charges}}
}

// claimSubject returns the subject of a claim in the journal.
func (w *Watcher) claimSubject(name types.NamespacedName) string {
	if subject, isKnown := w.claimSubjects.Get(name); isKnown {
		return subject.(string)
	}
	return claims.ClaimSubject(name)
}
