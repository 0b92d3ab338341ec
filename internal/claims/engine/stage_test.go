package engine_test

import (
	"cmp"
	"context"
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
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/routing"
)

var (
	fleetKind     = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"}
	fleetResource = fleetKind.GroupVersion().WithResource("fleets")
	zeta          = quotav1alpha1.ConsumerRef{Kind: "Org", Name: "zeta"}
)

const (
	fleetUID = types.UID("fleet-uid")
	// finally is longer than anything takes that the controller waits for.
	finally = 3 * time.Minute
)

// onlyFleets serves one kind.
type onlyFleets struct{}

func (onlyFleets) DefinitionDeleted(schema.GroupKind) bool { return false }

func (onlyFleets) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	return discoverycache.Served, fleetResource, nil
}

var acme = quotav1alpha1.ConsumerRef{Kind: "Org", Name: "acme"}

// theFleet is the object of [fleet].
var theFleet = engine.Object{Kind: fleetKind.GroupKind(), UID: fleetUID}

// fleet is an object with a cost of one for each replica.
func fleet(version, payer string, replicas int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas, "payer": payer}}}
	object.SetGroupVersionKind(fleetKind)
	object.SetNamespace("ns")
	object.SetName("a")
	object.SetUID(fleetUID)
	object.SetResourceVersion(version)
	return object
}

// storedFleet is the metadata of [fleet] on an API server.
func storedFleet() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleetKind.GroupVersion().String(), Kind: fleetKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: fleetUID},
	}
}

// fleets is the policy for fleets. Its claims are of record, because they name the user of the create.
func fleets() *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: fleetKind.GroupVersion().String(), Kind: fleetKind.Kind},
				Operations: []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{
					Name: "claim-{{.trigger.metadata.name}}", Annotations: map[string]string{"example.com/user": "{{.user.name}}"},
				},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "Org", Name: "{{.trigger.spec.payer}}"},
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", AmountExpression: "trigger.spec.replicas"}},
				},
			}},
		},
	}
}

// stage is the state left behind by a dead process: stored objects, and the ledgers.
type stage struct {
	*testing.T
	server *claimstest.Server
	memory *storagetest.Memory
	// store is the dead process's store.
	store *ledgerstore.Store
	// alive ends with the running process, and died ends it.
	alive context.Context
	died  context.CancelFunc
	// metadata is the running process's client to watch objects.
	metadata *metadatafake.FakeMetadataClient
}

func newStage(t *testing.T) *stage {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &stage{T: t, server: claimstest.New(), memory: storagetest.New(), died: cancel}
	s.store = s.newStore(ctx)
	for _, consumer := range []quotav1alpha1.ConsumerRef{acme, zeta} {
		s.must(s.store.SetGrants(ctx, consumer, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
			return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "t", Amount: 100}}}}, nil
		}))
	}
	return s
}

// newStore returns a store that observes the claims of the server.
func (s *stage) newStore(ctx context.Context) *ledgerstore.Store {
	store := ledgerstore.New(ctx, s.memory.Connect(nil))
	store.Inventory = s.server.Inventory(s)
	return store
}

// observing is longer than a ledger takes to store what it observes.
const observing = 4 * time.Second

// observeWith has a store observe the claims in a cache, as the watch of the inventory does.
func observeWith(store *ledgerstore.Store, known *claimcache.Cache) {
	known.OnChange(func(_, _ *claimcache.Claim) {
		store.KindChanged(inventory.Claims, []quotav1alpha1.ConsumerRef{acme, zeta})
	})
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// charges are those for an amount, or none for 0.
func charges(amount int64) []ledger.Charge {
	if amount == 0 {
		return nil
	}
	return []ledger.Charge{{ResourceType: "t", Amount: ledger.Amount(amount)}}
}

// fleetKey is the key of the fleet's reservation, and the ID of its claim.
var fleetKey = ledgerstore.ObjectKey("p", string(fleetUID))

// intent returns the intent of the fleet's claim.
func intent() claims.Intent {
	return claims.Intent{
		Claim: types.NamespacedName{Namespace: "ns", Name: "claim-a"}, Kind: fleetKind,
		Object: types.NamespacedName{Namespace: "ns", Name: "a"},
	}
}

// reserve reserves for the fleet, as a review does.
func (s *stage) reserve(consumer quotav1alpha1.ConsumerRef, amount int64) ledgerstore.InFlight {
	s.Helper()
	decision, err := storagetest.Reserve(s.Context(), s.store, consumer, ledger.Reservation{
		Key: fleetKey, Charges: charges(amount), Claim: intent().Encode(), Awaits: &ledger.Awaited{Kind: inventory.Claims, ID: fleetKey},
	})
	s.must(err)
	for _, pending := range s.store.ReservationsFor(string(fleetUID)) {
		if pending.Consumer == consumer && pending.Sequence == decision.Sequence {
			return pending
		}
	}
	s.Fatalf("the reservation is not in flight: %+v", decision)
	return ledgerstore.InFlight{}
}

// claim stores the claim of a reservation, granted or not.
func (s *stage) claim(reservation ledgerstore.InFlight, granted bool) *quotav1alpha1.ResourceClaim {
	s.Helper()
	claim, err := claims.FromReservation(reservation)
	s.must(err)
	claim.UID, claim.ResourceVersion = "uid-claim-a", "1"
	if granted {
		claims.Grant(claim, catalog.New(), time.Now())
	}
	s.server.Put(claim)
	return claim
}

// run starts another process, with policy if there is one, and lets it run until nothing is left to wait for. object
// is the fleet in its stored form, or nil.
func (s *stage) run(policy *quotav1alpha1.ClaimCreationPolicy, object *unstructured.Unstructured) *lifecycle.Controller {
	s.Helper()
	s.died()
	ctx, cancel := context.WithCancel(s.Context())
	s.alive, s.died = ctx, cancel
	s.Cleanup(cancel)

	scheme := runtime.NewScheme()
	s.must(metav1.AddMetaToScheme(scheme))
	s.metadata = metadatafake.NewSimpleMetadataClient(scheme)
	if object != nil {
		s.must(s.metadata.Tracker().Add(storedFleet()))
	}
	claimClient := s.server.Client(s)

	known := catalog.New()
	known.SetRegistration(registration())
	s.must(quotav1alpha1.AddToScheme(scheme))
	policies := fake.NewClientBuilder().WithScheme(scheme)
	if policy != nil {
		policies.WithObjects(policy)
		if errs := known.SetPolicy(policy); len(errs) > 0 {
			s.Fatal(errs)
		}
	}

	store := s.newStore(ctx)
	transitions := engine.New(engine.Dependencies{
		Store: store, Objects: objectcache.New(s.metadata, onlyFleets{}), Claims: claimcache.New(), Client: claimClient, Catalog: known,
		SystemNamespace: "sys", Policies: []client.Reader{policies.Build()}, Log: logr.Discard(),
	})
	c := &lifecycle.Controller{Store: store, Engine: transitions, Objects: transitions.Objects, Claims: transitions.Claims, Replicas: (*routing.Peers)(nil), Log: logr.Discard()}
	releasing := &claim.Controller{Store: store, Engine: transitions, Claims: transitions.Claims, Client: claimClient, Catalog: known, Replicas: (*routing.Peers)(nil), Log: logr.Discard()}
	releasing.Start()
	c.Objects.OnVanish(releasing.ObjectVanished)
	for _, consumer := range []quotav1alpha1.ConsumerRef{acme, zeta} {
		s.must(store.View(ctx, consumer, func(*ledger.Ledger) {}))
	}

	c.Start()
	observeWith(store, c.Claims)
	go c.Claims.Run(ctx, claimClient.REST())
	s.must(c.Claims.WaitForSync(ctx))
	c.Objects.Follow(ctx, map[schema.GroupKind]schema.GroupVersionResource{fleetKind.GroupKind(): fleetResource})
	s.must(c.Objects.WaitForSync(ctx, fleetKind.GroupKind()))
	go func() { _ = c.Run(ctx) }()
	go func() { _ = releasing.Run(ctx) }()
	return c
}

func registration() *quotav1alpha1.ResourceRegistration {
	r := &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "t"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: "t", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{Kind: "Org"}, BaseUnit: "one", DisplayUnit: "one", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: fleetKind.Group, Kind: fleetKind.Kind}},
		},
	}
	apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	return r
}

func isGrantedClaim(claim *quotav1alpha1.ResourceClaim) bool {
	return claimcache.StateOf(claim) == claimcache.Granted
}

// outcome lists the claims, with their consumer and amount, and the ledger of each consumer.
func (s *stage) outcome() []string {
	var lines []string
	for _, claim := range s.server.List() {
		line := fmt.Sprintf("claim of %s for %d", claim.Spec.ConsumerRef.Name, claim.Spec.Requests[0].Amount)
		if !isGrantedClaim(claim) {
			line += ", not granted"
		} else if allocated := claim.Status.Allocations[0].AllocatedAmount; allocated != claim.Spec.Requests[0].Amount {
			line += fmt.Sprintf(", allocated %d", allocated)
		}
		lines = append(lines, line)
	}

	for _, consumer := range []quotav1alpha1.ConsumerRef{acme, zeta} {
		stored := s.memory.Snapshot(consumer)
		var used int64
		for _, o := range stored.Observations {
			for _, d := range o.Demands {
				used += int64(d.Amount)
			}
		}
		if used > 0 || len(stored.Reservations) > 0 {
			lines = append(lines, fmt.Sprintf("%s uses %d, %d in flight", consumer.Name, used, len(stored.Reservations)))
		}
	}

	slices.SortFunc(lines, cmp.Compare[string])
	return lines
}
