package lifecycle

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/routing"
)

var acme = quotav1alpha1.ConsumerRef{Kind: "Org", Name: "acme"}

// notServed reports every kind as defined and not served.
type notServed struct{ requests atomic.Int64 }

func (w *notServed) DefinitionDeleted(schema.GroupKind) bool { return false }

func (w *notServed) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	w.requests.Add(1)
	return discoverycache.NotServed, schema.GroupVersionResource{}, nil
}

// Claims of an unserved kind do not change, and the controller asks the API server once about the kind and not about
// each claim.
func TestClaimsOfUnservedKind(t *testing.T) {
	server := claimstest.New()
	const n = 100
	for i := range n {
		name := fmt.Sprint("c", i)
		server.Put(&quotav1alpha1.ResourceClaim{TypeMeta: metav1.TypeMeta{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "p"},
				Annotations: map[string]string{quotav1alpha1.AnnotationResourceUID: "o" + name}, Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease}},
			Spec: quotav1alpha1.ResourceClaimSpec{ConsumerRef: acme, ResourceRef: quotav1alpha1.UnversionedObjectReference{APIGroup: "g", Kind: "Widget", Name: name}, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 1}}}})
	}
	states := &notServed{}
	client, store := server.Client(t), ledgerstore.New(t.Context(), storagetest.New().Connect(nil))
	transitions := engine.New(engine.Dependencies{
		Store: store, Objects: objectcache.New(nil, states), Claims: claimcache.New(), Client: client, Catalog: catalog.New(), Log: logr.Discard(),
	})
	c := &Controller{Store: store, Engine: transitions, Objects: transitions.Objects, Claims: transitions.Claims, Replicas: (*routing.Peers)(nil), Log: logr.Discard()}
	c.Start()
	go c.Claims.Run(t.Context(), client.REST())
	if err := c.Claims.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.sweep(t.Context())
	if asked, queued := states.requests.Load(), c.Engine.Queue().Len(); asked != 1 || queued != 0 {
		t.Errorf("for %d claims the kind was looked up %d times and %d objects are to be processed", n, asked, queued)
	}
}
