package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/test/await"
)

var (
	kind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	acme = quotav1alpha1.ConsumerRef{Kind: "Org", Name: "acme"}
	uid  = types.UID("0b6c9d4e-4a53-4d83-9a0c-5a3f2a6f0001")
)

// served serves ConfigMaps.
type served struct{}

// VersionedResourceFor implements [discoverycache.Resolver].
func (served) VersionedResourceFor(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	return kind.GroupVersion().WithResource("configmaps"), true, nil
}

// namespaces are all active, or all are being deleted.
type namespaces struct{ areActive bool }

// Active implements [evaluator.Namespaces].
func (n namespaces) Active(context.Context, string) (bool, error) { return n.areActive, nil }

// Object implements [evaluator.Namespaces].
func (namespaces) Object(context.Context, string) (map[string]any, error) { return nil, nil }

// stage has one object under a policy, by which it demands 1, and no view yet.
type stage struct {
	*Controller
	server  *claimstest.Server
	counted *inventory.Kind
}

func newStage(t *testing.T, areActive bool) *stage {
	t.Helper()
	known := catalog.New()
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "t", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{Kind: acme.Kind},
		ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: kind.Kind}},
	}}
	apimeta.SetStatusCondition(&registration.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	known.SetRegistration(registration)
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}}
	policy.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: kind.Kind}
	policy.Spec.Target.ResourceClaimTemplate = quotav1alpha1.ResourceClaimTemplate{
		Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "view-{{.trigger.metadata.name}}"},
		Spec:     quotav1alpha1.ResourceClaimTemplateSpec{ConsumerRef: acme, Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", Amount: 1}}},
	}
	if errs := known.SetPolicy(policy); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}

	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace("ns")
	object.SetName("a")
	object.SetUID(uid)
	object.SetResourceVersion("1")
	s := &stage{server: claimstest.New()}
	all := inventory.New()
	s.counted = all.Add(inventory.NameOf(kind), func(types.NamespacedName) string { return "" })
	s.Controller = &Controller{
		Inventory: all, Catalog: known, Evaluator: &evaluator.Evaluator{Catalog: known, Namespaces: namespaces{areActive}, SystemNamespace: "sys"},
		Views: claimcache.NewViews(), Client: s.server.Client(t), Kinds: served{},
		Live: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), object), SystemNamespace: "sys", Log: logr.Discard(),
	}
	s.Start()
	s.count(1)
	go s.Views.Run(t.Context(), s.Client.REST())
	if err := s.Views.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// count has the object demand an amount.
func (s *stage) count(amount ledger.Amount) {
	var demands []inventory.Demand
	if amount > 0 {
		demands = []inventory.Demand{{Policy: "p", Consumer: acme, Charges: []ledger.Charge{{ResourceType: "t", Amount: amount}}}}
	}
	basis, _ := s.counted.Basis()
	basis.Objects++
	s.counted.Replace(basis, slices.Values([]inventory.Object{
		{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}, UID: uid, Version: basis.Objects, Demands: demands},
	}))
}

// sync makes the views follow, and waits until the cache shows the result.
func (s *stage) sync(t *testing.T) []*quotav1alpha1.ResourceClaim {
	t.Helper()
	if err := s.syncObject(t.Context(), object{kind.GroupKind(), uid}); err != nil {
		t.Fatal(err)
	}
	stored := s.server.List()
	await.NoError(t, 10*time.Second, func() error {
		if known := s.Views.ForObject(uid); len(known) != len(stored) {
			return fmt.Errorf("the cache has %d views, and the server %d", len(known), len(stored))
		}
		return nil
	})
	return stored
}

func TestViewShowsItsObject(t *testing.T) {
	s := newStage(t, true)
	made := s.sync(t)
	if len(made) != 1 || made[0].Name != "view-a" || made[0].Labels[quotav1alpha1.LabelView] != "true" || len(made[0].Finalizers) > 0 {
		t.Fatalf("the claims are %+v, want the view of the object", made)
	}
	if again := s.sync(t); len(again) != 1 || again[0].ResourceVersion != made[0].ResourceVersion {
		t.Errorf("the view was written again: %+v", again)
	}

	s.count(0)
	if left := s.sync(t); len(left) > 0 {
		t.Errorf("an object that demands nothing has the views %+v", left)
	}
}

// A new leader may see an object later than the former one, which has made its view.
func TestLateInventoryKeepsViews(t *testing.T) {
	s := newStage(t, true)
	s.sync(t)

	s.Inventory = inventory.New()
	s.counted = s.Inventory.Add(inventory.NameOf(kind), func(types.NamespacedName) string { return "" })
	s.counted.Replace(ledger.Basis{}, slices.Values([]inventory.Object(nil)))
	if err := s.syncObject(t.Context(), object{kind.GroupKind(), uid}); !errors.Is(err, errLate) {
		t.Errorf("got %v, want that it waits for the object", err)
	}
	if kept := s.server.List(); len(kept) != 1 {
		t.Errorf("the views are %+v, want the one of the object", kept)
	}

	s.count(1)
	if again := s.sync(t); len(again) != 1 {
		t.Errorf("the views are %+v, want the one of the object", again)
	}
}

// The API server would delete such a view at once, and nobody would look at it.
func TestNoViewInAnEndingNamespace(t *testing.T) {
	s := newStage(t, false)
	if made := s.sync(t); len(made) > 0 {
		t.Errorf("the claims are %+v, want none for an object that is about to go", made)
	}
}

// A term may end before it has a list of views. Nobody else would end its queues.
func TestTermEndsWithoutAList(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	c := &Controller{Views: claimcache.NewViews(), Client: claimstest.New().Client(t), Log: logr.Discard()}
	c.Start()

	end()
	err := c.Run(ctx)

	if err != nil || !c.objects.ShuttingDown() || !c.kinds.ShuttingDown() {
		t.Errorf("Run returned %v, and its queues have ended: %t and %t", err, c.objects.ShuttingDown(), c.kinds.ShuttingDown())
	}
}
