package claim

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/kube/progress"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/routing"
)

var consumer = quotav1alpha1.ConsumerRef{APIGroup: "g", Kind: "Org", Name: "acme"}

// api is an API server with one claim.
type api struct{ *claimstest.Server }

// newAPI returns an API server with an undecided claim, and a client of it.
func newAPI(t *testing.T) (api, *claims.Client) {
	server := claimstest.New(&quotav1alpha1.ResourceClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "c", UID: "u1", ResourceVersion: "1", Generation: 1, Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease},
		},
		Spec: quotav1alpha1.ResourceClaimSpec{ConsumerRef: consumer,
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "x", Namespace: "ns"},
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 1}}},
	})
	return api{server}, server.Client(t)
}

// claim returns the stored claim.
func (a api) claim() *quotav1alpha1.ResourceClaim { return a.Get("c") }

// change changes the claim as another client would.
func (a api) change(f func(*quotav1alpha1.ResourceClaim)) { a.Change("c", f) }

// onStatus calls a function before the write of a status, once.
func (a api) onStatus(f func()) {
	a.Intercept(func(method, name string) bool {
		if method == http.MethodPut && name == "status" {
			a.Intercept(nil)
			f()
		}
		return false
	})
}

// rejectPatches makes every patch fail except for those of the status.
func (a api) rejectPatches() {
	a.Intercept(func(method, _ string) bool { return method == http.MethodPatch })
}

func register(c *catalog.Catalog) {
	r := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "t", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: "g", Kind: "Org"},
		ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}}}}
	apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	c.SetRegistration(r)
}

func grant(t testing.TB, s *ledgerstore.Store) {
	err := s.SetGrants(t.Context(), consumer, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "t", Amount: 10}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitGranted waits until the claim's status is granted.
func (a api) waitGranted(t *testing.T) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return claimcache.StateOf(a.claim()) == claimcache.Granted, nil
	})
	if err != nil {
		t.Fatalf("the claim says %+v", a.claim().Status)
	}
}

// undefined is an API server without kinds: claims pay for no existing object.
type undefined struct{}

func (undefined) DefinitionDeleted(schema.GroupKind) bool { return false }

func (undefined) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	return discoverycache.Undefined, schema.GroupVersionResource{}, nil
}

// process is a controller with its own store and cache.
func process(t testing.TB, server *claimstest.Server, client *claims.Client, registrations *catalog.Catalog, storage ledgerstore.Storage) *Controller {
	store := ledgerstore.New(t.Context(), storage)
	store.Inventory = server.Inventory(t)
	transitions := engine.New(engine.Dependencies{
		Store: store, Claims: claimcache.New(), Client: client, Catalog: registrations, Objects: objectcache.New(nil, undefined{}), Log: logr.Discard(),
	})
	c := &Controller{Store: store, Engine: transitions, Claims: transitions.Claims, Client: client, Catalog: registrations, Replicas: (*routing.Peers)(nil), Log: logr.Discard()}
	c.Start()
	return c
}

// undecided is an API server with a claim of 1 to decide, the storage of ledgers, and a process; the limit is 10.
func undecided(t *testing.T) (api, *storagetest.Memory, *Controller) {
	t.Helper()
	a, client := newAPI(t)
	memory, registrations := storagetest.New(), catalog.New()
	register(registrations)
	c := process(t, a.Server, client, registrations, memory.Connect(nil))
	grant(t, c.Store)
	return a, memory, c
}

// Two processes decide one claim: the second reads it before the first decides, and continues after the first has
// granted it.
func TestTwoProcessesChargeAClaimOnce(t *testing.T) {
	a, client := newAPI(t)
	memory, registrations := storagetest.New(), catalog.New()
	register(registrations)
	first := process(t, a.Server, client, registrations, memory.Connect(nil))
	grant(t, first.Store)
	arrived, gate := make(chan struct{}, 10), make(chan struct{})
	second := process(t, a.Server, client, registrations, memory.Connect(func(context.Context, storagetest.Call) storagetest.Fault {
		arrived <- struct{}{}
		<-gate
		return storagetest.None
	}))
	name := types.NamespacedName{Namespace: "ns", Name: "c"}
	late := make(chan error, 1)
	go func() {
		_, err := second.decide(t.Context(), task{name, consumer})
		late <- err
	}()
	<-arrived
	if granted, err := first.decide(t.Context(), task{name, consumer}); err != nil || !granted {
		t.Fatalf("granted %v, %v", granted, err)
	}
	if err := first.Store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if err := <-late; !apierrors.IsConflict(err) {
		t.Errorf("the late process got %v, want a conflict", err)
	}
	wantLedger(t, first, 1, 1)
	wantLedger(t, second, 1, 1)
}

// The quota of a grant whose write may still come returns only together with a change that refuses the write.
func TestLateGrantIsRefused(t *testing.T) {
	a, memory, c := undecided(t)
	c.Store.ReservationLifetime = time.Nanosecond
	late := a.claim()
	a.Intercept(func(method, _ string) bool { return method == http.MethodPut })
	if granted, err := c.decide(t.Context(), task{theClaim, consumer}); err == nil || granted {
		t.Fatalf("granted %t, %v, although the status cannot be written", granted, err)
	}
	if held := memory.Snapshot(consumer).Reservations; len(held) != 1 {
		t.Fatalf("the ledger has %+v in flight, want the grant", held)
	}
	a.Intercept(nil)

	if err := c.Engine.Process(t.Context(), engine.Object{Kind: inventory.ClaimKind.GroupKind(), UID: late.UID}); err != nil {
		t.Fatal(err)
	}
	wantLedger(t, c, 0, 0)
	claims.Grant(late, c.Catalog, time.Now())
	if err := c.Client.UpdateStatus(t.Context(), late); !apierrors.IsConflict(err) {
		t.Errorf("the late write got %v, want a conflict", err)
	}
}

// The controller decides a rejected claim again once its type has a registration, at any time.
func TestRejectedClaims(t *testing.T) {
	tests := map[string]struct {
		reason   string
		register func(a api, c *Controller)
	}{
		"registered while it is rejected": {"the news comes before the status that it is about", func(a api, c *Controller) {
			a.onStatus(func() {
				register(c.Catalog)
				c.RegistrationsChanged()
			})
		}},
		"registered while no process ran": {"nobody hears the news", func(a api, c *Controller) {
			a.change(func(claim *quotav1alpha1.ResourceClaim) {
				claims.Reject(claim, progress.Waiting, "unknown type", time.Now())
			})
			register(c.Catalog)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, client := newAPI(t)
			c := process(t, a.Server, client, catalog.New(), storagetest.New().Connect(nil))
			grant(t, c.Store)
			tt.register(a, c)
			go c.Claims.Run(t.Context(), client.REST())
			go func() { _ = c.Run(t.Context()) }()
			a.waitGranted(t)
		})
	}
}

// A waiting claim is granted, and the cache still has it as waiting when capacity appears again.
func TestGrantedClaimIsNotDecidedAgain(t *testing.T) {
	a, client := newAPI(t)
	memory, registrations := storagetest.New(), catalog.New()
	register(registrations)
	c := process(t, a.Server, client, registrations, memory.Connect(nil))
	name := types.NamespacedName{Namespace: "ns", Name: "c"}
	if granted, err := c.decide(t.Context(), task{name, consumer}); err != nil || granted {
		t.Fatalf("granted %v although there is no quota, %v", granted, err)
	}
	waiting := claimcache.Compact(a.claim())
	grant(t, c.Store)
	for range 2 {
		if _, err := c.retry(t.Context(), consumer, []*claimcache.Claim{waiting}); err != nil {
			t.Fatal(err)
		}
		wantLedger(t, c, 1, 1)
	}
}

// The release of a claim deleted during its decision comes after the decision.
func TestReleaseWaitsForTheDecision(t *testing.T) {
	a, client := newAPI(t)
	memory, registrations := storagetest.New(), catalog.New()
	register(registrations)
	arrived, gate := make(chan struct{}, 10), make(chan struct{})
	c := process(t, a.Server, client, registrations, memory.Connect(func(_ context.Context, call storagetest.Call) storagetest.Fault {
		if call == storagetest.Write {
			arrived <- struct{}{}
			<-gate
		}
		return storagetest.None
	}))
	grant(t, process(t, a.Server, client, registrations, memory.Connect(nil)).Store)
	name := types.NamespacedName{Namespace: "ns", Name: "c"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.decide(t.Context(), task{name, consumer}) // a write of its status no longer succeeds
	}()
	<-arrived
	a.change(func(claim *quotav1alpha1.ResourceClaim) { claim.DeletionTimestamp = new(metav1.Now()) })
	known := claimcache.Compact(a.claim())
	if err := c.release(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	if !claimcache.HasFinalizer(a.claim()) {
		t.Error("the claim was let go while its charge was being reserved")
	}
	close(gate)
	<-done
	if err := c.release(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	wantLedger(t, c, 0, 0)
}

// A claim without room in its ledger waits like one without quota.
func TestFullLedgerHasClaimsWait(t *testing.T) {
	a, memory, c := undecided(t)
	empty := memory.Fill(consumer)
	go c.Claims.Run(t.Context(), c.Client.REST())
	go func() { _ = c.Run(t.Context()) }()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		condition := apimeta.FindStatusCondition(a.claim().Status.Conditions, quotav1alpha1.ConditionGranted)
		return condition != nil && condition.Reason == quotav1alpha1.ReasonQuotaExceeded && strings.HasPrefix(condition.Message, "the ledger of Org acme is full: ") &&
			strings.HasSuffix(condition.Message, "The claim waits, and is granted by itself once there is room."), nil
	})
	if err != nil {
		t.Fatalf("the claim says %+v", a.claim().Status)
	}
	c.Store.ObserveOf(consumer, ledgerstore.Notice{Name: naming.Ledger(consumer), Version: empty().Version})
	a.waitGranted(t)
}
