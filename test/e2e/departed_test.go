package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/controller/departed"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// untilDeparted bounds the wait until a consumer's traces are gone. On an idle machine that takes half a minute.
const untilDeparted = 2 * time.Minute

const machinesType = platform.Group + "/machines"

// apart is a separate server without other consumers. It looks every 50 ms for consumers that do not exist. Tests share
// it if they would find or leave too much on the other server.
type apart struct {
	*server.Server
	metrics *prometheus.Registry
	// bursar talks to the server as Bursar.
	bursar client.Client
}

// startApart starts it for the first test that needs it.
var startApart = sync.OnceValues(func() (*apart, error) {
	a := &apart{metrics: prometheus.NewRegistry()}
	options := standalone.Options{Metrics: a.metrics}
	options.DepartedInterval.Duration = 50 * time.Millisecond
	var err error
	if a.Server, err = server.Start(options); err != nil {
		return nil, err
	}
	atEnd(a.Stop)
	if a.bursar, err = a.As(asOperator); err != nil {
		return nil, err
	}
	ctx := context.Background()
	return a, errors.Join(platform.Install(ctx, a.Admin), a.Admin.Create(ctx, &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "machines"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: machinesType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
			BaseUnit: "machine", DisplayUnit: "machine", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
		},
	}))
})

// departure is a test of the traces of consumers.
type departure struct {
	*testing.T
	*apart
}

func newDeparture(t *testing.T) *departure {
	t.Helper()
	t.Parallel()
	a, err := startApart()
	must(t, err)
	return &departure{t, a}
}

// give grants a consumer one machine, and waits until the grant counts.
func (d *departure) give(consumer quotav1alpha1.ConsumerRef) *quotav1alpha1.ResourceGrant {
	d.Helper()
	return d.giveOf(consumer, machinesType)
}

func (d *departure) giveOf(consumer quotav1alpha1.ConsumerRef, resourceType string) *quotav1alpha1.ResourceGrant {
	d.Helper()
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: consumer.Name, Namespace: "default"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: consumer, Allowances: []quotav1alpha1.Allowance{{ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: 1}}}},
	}}
	eventually(d, func() error { return d.Admin.Create(d.Context(), grant) })
	eventually(d, func() error {
		err := d.Admin.Get(d.Context(), client.ObjectKeyFromObject(grant), grant)
		if err == nil && !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			err = fmt.Errorf("the grant is not active: %+v", grant.Status.Conditions)
		}
		return err
	})
	return grant
}

// claim asks for one machine, and waits until the condition Granted has a status.
func (d *departure) claim(consumer quotav1alpha1.ConsumerRef, name string, want metav1.ConditionStatus) *quotav1alpha1.ResourceClaim {
	d.Helper()
	return d.claimOf(consumer, machinesType, name, want)
}

func (d *departure) claimOf(consumer quotav1alpha1.ConsumerRef, resourceType, name string, want metav1.ConditionStatus) *quotav1alpha1.ResourceClaim {
	d.Helper()
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: quotav1alpha1.ResourceClaimSpec{
		ConsumerRef: consumer, ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: name, Namespace: "default"},
		Requests: []quotav1alpha1.ResourceRequest{{ResourceType: resourceType, Amount: 1}},
	}}
	eventually(d, func() error { return d.Admin.Create(d.Context(), claim) })
	eventually(d, func() error {
		if err := d.Admin.Get(d.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
		if granted == nil || granted.Status != want {
			return fmt.Errorf("claim %s has the condition %+v, want Granted to be %s", name, granted, want)
		}
		return nil
	})
	return claim
}

func (d *departure) organization(name string) *unstructured.Unstructured {
	d.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: platform.Group, Version: "v1", Kind: platform.Kind})
	object.SetName(name)
	if err := d.Admin.Create(d.Context(), object); err != nil {
		d.Fatal(err)
	}
	return object
}

func (d *departure) remove(objects ...client.Object) {
	d.Helper()
	for _, object := range objects {
		if err := d.Admin.Delete(d.Context(), object); err != nil {
			d.Fatal(err)
		}
	}
}

// left returns the traces of a consumer.
func (d *departure) left(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (found []string, err error) {
	err = d.Admin.Get(ctx, client.ObjectKey{Name: naming.Ledger(consumer)}, &quotav1alpha1.ConsumerLedger{})
	if err == nil {
		found = append(found, "the ledger")
	}
	var effective quotav1alpha1.EffectiveResourceGrantList
	var buckets quotav1alpha1.AllowanceBucketList
	err = errors.Join(client.IgnoreNotFound(err), d.Admin.List(ctx, &effective), d.Admin.List(ctx, &buckets))
	for i := range effective.Items {
		if effective.Items[i].Spec.ConsumerRef == consumer {
			found = append(found, "an effective grant")
		}
	}
	for i := range buckets.Items {
		if buckets.Items[i].Spec.ConsumerRef == consumer {
			found = append(found, fmt.Sprintf("a bucket with limit %d", buckets.Items[i].Status.Limit))
		}
	}
	families, gatherErr := d.metrics.Gather()
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "consumer_name" && label.GetValue() == consumer.Name {
					return append(found, "a metric"), errors.Join(err, gatherErr)
				}
			}
		}
	}
	return found, errors.Join(err, gatherErr)
}

// wantLeft waits until a consumer has exactly these traces.
func (d *departure) wantLeft(consumer quotav1alpha1.ConsumerRef, want ...string) {
	d.Helper()
	await.NoError(d, untilDeparted, func() error {
		found, err := d.left(d.Context(), consumer)
		if err == nil && fmt.Sprint(found) != fmt.Sprint(want) {
			err = fmt.Errorf("%q is left of %s, want %q", found, consumer.Name, want)
		}
		return err
	})
}

// wantShown waits until a consumer's quota is visible. A short-lived quota never becomes visible.
func (d *departure) wantShown(consumer quotav1alpha1.ConsumerRef) {
	d.Helper()
	eventually(d, func() error {
		found, err := d.left(d.Context(), consumer)
		if err == nil && !slices.Contains(found, everything[1]) {
			err = fmt.Errorf("of %s there is %q, want %s", consumer.Name, found, everything[1])
		}
		return err
	})
}

var everything = []string{"the ledger", "an effective grant", "a bucket with limit 0", "a metric"}

// comeAndGo grants something to a consumer that never existed, takes it back, and waits until no trace is left. After
// that, the controller has also removed all other removable traces.
func (d *departure) comeAndGo(name string) {
	d.Helper()
	consumer := platform.Consumer(name)
	d.remove(d.give(consumer))
	d.wantLeft(consumer)
}

func TestConsumerThatNeverExisted(t *testing.T) {
	d := newDeparture(t)
	consumer := platform.Consumer("ghost")
	waiting := d.claim(consumer, "ghost", metav1.ConditionFalse)
	d.comeAndGo("before-ghost")
	d.wantLeft(consumer, everything[1:]...) // the reason is visible to waiting people
	d.remove(waiting)
	d.wantLeft(consumer)
}

func TestConsumerThatIsDeleted(t *testing.T) {
	d := newDeparture(t)
	consumer, object := platform.Consumer("acme"), d.organization("acme")
	grant := d.give(consumer)
	used := d.claim(consumer, "acme", metav1.ConditionTrue)
	d.wantShown(consumer)
	d.remove(used, grant)
	d.comeAndGo("before-acme")
	d.wantLeft(consumer, everything...)
	d.remove(object)
	d.wantLeft(consumer)
}

// define defines a kind of consumers of its own, and registers machines for it under a resource type.
func (d *departure) define(kind *apiextensionsv1.CustomResourceDefinition) (consumer quotav1alpha1.ConsumerRef, resourceType string) {
	d.Helper()
	must(d, d.Admin.Create(d.Context(), kind))
	consumer = quotav1alpha1.ConsumerRef{APIGroup: kind.Spec.Group, Kind: kind.Spec.Names.Kind, Name: "one-of-" + kind.Spec.Names.Plural}
	resourceType = kind.Spec.Group + "/machines"
	must(d, d.Admin.Create(d.Context(), &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: kind.Spec.Names.Plural}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: resourceType, Type: quotav1alpha1.RegistrationTypeEntity,
		ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: consumer.APIGroup, Kind: consumer.Kind},
		BaseUnit:        "machine", DisplayUnit: "machine", UnitConversionFactor: 1, ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
	}}))
	return consumer, resourceType
}

// TestConsumerOfARemovedKind removes the kind of a consumer with a claim. Its traces stay until the claim is gone.
func TestConsumerOfARemovedKind(t *testing.T) {
	d := newDeparture(t)
	kind := platform.Definition("removed.example.com", "Crew", "crews")
	consumer, resourceType := d.define(kind)
	grant := d.giveOf(consumer, resourceType)
	claim := d.claimOf(consumer, resourceType, "crew", metav1.ConditionTrue)
	d.wantShown(consumer)
	d.remove(kind, grant)
	d.comeAndGo("before-crew")
	d.wantLeft(consumer, everything...)
	d.remove(claim)
	d.wantLeft(consumer)
}

// TestConsumerOfAKindThatIsNotServed keeps the traces: nobody can find out whether the consumer exists.
func TestConsumerOfAKindThatIsNotServed(t *testing.T) {
	d := newDeparture(t)
	kind := platform.Definition("later.example.com", "Team", "teams")
	consumer, resourceType := d.define(kind)
	serve := func(served bool) {
		eventually(t, func() error {
			current := &apiextensionsv1.CustomResourceDefinition{}
			if err := d.Admin.Get(t.Context(), client.ObjectKeyFromObject(kind), current); err != nil {
				return err
			}
			current.Spec.Versions[0].Served = served
			return d.Admin.Update(t.Context(), current)
		})
	}
	grant := d.giveOf(consumer, resourceType)
	d.wantShown(consumer)
	serve(false)
	d.comeAndGo("before-served") // by now the server knows that it does not serve the kind
	d.remove(grant)
	d.comeAndGo("before-later")
	if found, err := d.left(d.Context(), consumer); err != nil || len(found) == 0 || found[0] != "the ledger" {
		t.Errorf("%q is left of a consumer whose kind is not served, %v; want all of it", found, err)
	}
	serve(true)
	await.NoError(t, untilDeparted, func() error {
		err := d.Admin.Get(t.Context(), client.ObjectKey{Name: naming.Ledger(consumer)}, &quotav1alpha1.ConsumerLedger{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the ledger to go once it can be told that the consumer does not exist", err)
		}
		return nil
	})
}

// TestDecisionsWhileTracesGo grants, claims, and takes back, again and again. Meanwhile the controller removes traces.
func TestDecisionsWhileTracesGo(t *testing.T) {
	d := newDeparture(t)
	consumer := platform.Consumer("nomad")
	for round := range 16 {
		grant := d.give(consumer)
		first := d.claim(consumer, fmt.Sprintf("first-%d", round), metav1.ConditionTrue)
		second := d.claim(consumer, fmt.Sprintf("second-%d", round), metav1.ConditionFalse)
		d.remove(second, first, grant)
		if round%4 == 3 {
			d.wantLeft(consumer)
		}
	}
	d.wantLeft(consumer)
}

func ledgerOf(consumer quotav1alpha1.ConsumerRef) *quotav1alpha1.ConsumerLedger {
	return &quotav1alpha1.ConsumerLedger{
		ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(consumer)}, Spec: quotav1alpha1.ConsumerLedgerSpec{ConsumerRef: consumer},
	}
}

// one is a consumer, and nothing else.
type one quotav1alpha1.ConsumerRef

func (o one) Consumers() []quotav1alpha1.ConsumerRef {
	return []quotav1alpha1.ConsumerRef{quotav1alpha1.ConsumerRef(o)}
}
func (one) Forget(quotav1alpha1.ConsumerRef) {}

// noClaims is a follower that has seen no claims.
type noClaims struct{}

func (noClaims) WaitForSync(context.Context) error { return nil }
func (noClaims) ForConsumer(quotav1alpha1.ConsumerRef, func(*claimcache.Claim) bool) []*claimcache.Claim {
	return nil
}

// TestDecisionAtTheLastMoment reserves between the check for an empty ledger and its deletion.
func TestDecisionAtTheLastMoment(t *testing.T) {
	d := newDeparture(t)
	consumer := platform.Consumer("late")
	d.organization("late") // the server's own controller leaves it alone
	bursar := d.bursar
	if err := bursar.Create(t.Context(), ledgerOf(consumer)); err != nil {
		t.Fatal(err)
	}
	var looks, reserved atomic.Int32
	controller := &departed.Controller{
		Client: bursar, Consumers: one(consumer), Claims: noClaims{}, Interval: time.Millisecond, Objects: missing{&looks},
		Live: beforeClaims{bursar, func(ctx context.Context) error {
			ledger := &quotav1alpha1.ConsumerLedger{}
			if err := bursar.Get(ctx, client.ObjectKey{Name: naming.Ledger(consumer)}, ledger); err != nil {
				return err
			}
			ledger.Spec.Sequence++
			ledger.Spec.Reservations = []quotav1alpha1.LedgerReservation{{
				Key: "late", Sequence: ledger.Spec.Sequence, ReservedAt: time.Now().Unix(),
				Charges: []quotav1alpha1.LedgerCharge{{ResourceType: machinesType, Amount: 1}},
			}}
			reserved.Add(1)
			return bursar.Update(ctx, ledger)
		}},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	eventually(t, func() error {
		if reserved.Load() == 0 || looks.Load() < 10 {
			return fmt.Errorf("%d looks, %d reservations", looks.Load(), reserved.Load())
		}
		return nil
	})
	stop()
	if err := await.End(func() error { return <-ended }); err != nil {
		t.Fatal(err)
	}
	ledger := &quotav1alpha1.ConsumerLedger{}
	if err := d.Admin.Get(t.Context(), client.ObjectKey{Name: naming.Ledger(consumer)}, ledger); err != nil || len(ledger.Spec.Reservations) != 1 {
		t.Errorf("got %v and the reservations %v, want the ledger to keep the one that was made at the last moment", err, ledger.Spec.Reservations)
	}
	if reserved.Load() != 1 {
		t.Errorf("the ledger was to be deleted %d times, want once: then it is not empty any more", reserved.Load())
	}
}

// TestLaterFormatStays finds a ledger of a later version, with nothing in it known to this version.
func TestLaterFormatStays(t *testing.T) {
	d := newDeparture(t)
	consumer := platform.Consumer("later")
	d.organization("later") // the server's own controller leaves it alone
	bursar := d.bursar
	stored := ledgerOf(consumer)
	stored.Spec.Format = quotav1alpha1.ConsumerLedgerFormat + 1
	if err := bursar.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int32
	controller := &departed.Controller{
		Client: bursar, Live: bursar, Consumers: one(consumer), Claims: noClaims{}, Interval: time.Millisecond,
		Objects: missing{&looks},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	eventually(t, func() error {
		if looks.Load() < 10 {
			return fmt.Errorf("%d looks", looks.Load())
		}
		return nil
	})
	stop()
	if err := await.End(func() error { return <-ended }); err != nil {
		t.Fatal(err)
	}
	if err := d.Admin.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		t.Errorf("got %v, want the ledger to stay", err)
	}
}

// missing finds no object, and counts how often it looks.
type missing struct{ looks *atomic.Int32 }

func (m missing) Find(context.Context, quotav1alpha1.ConsumerRef) (departed.Existence, error) {
	m.looks.Add(1)
	return departed.NotFound, nil
}

// beforeClaims is a reader that does something before each list of claims.
type beforeClaims struct {
	client.Reader
	do func(context.Context) error
}

func (r beforeClaims) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*quotav1alpha1.ResourceClaimList); is {
		if err := r.do(ctx); err != nil {
			return err
		}
	}
	return r.Reader.List(ctx, list, options...)
}
