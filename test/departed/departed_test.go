// Package departed drives a real standalone server, started in this process, and looks at what is left of consumers that
// no longer exist or never did.
package departed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/controller/departed"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

const (
	soon         = 60 * time.Second
	resourceType = platform.Group + "/machines"
)

var (
	started *server.Server
	admin   client.Client
	metrics = prometheus.NewRegistry()
)

func TestMain(m *testing.M) {
	options := standalone.Options{Metrics: metrics}
	options.AuditInterval.Duration, options.DepartedInterval.Duration = time.Second, 50*time.Millisecond
	server.Main(m, options, func(ctx context.Context, s *server.Server) error {
		started, admin = s, s.Admin
		return errors.Join(platform.Install(ctx, admin), admin.Create(ctx, &quotav1alpha1.ResourceRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: "machines"},
			Spec: quotav1alpha1.ResourceRegistrationSpec{
				ResourceType: resourceType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
				BaseUnit: "machine", DisplayUnit: "machine", UnitConversionFactor: 1,
				ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
			},
		}))
	}, checkDrift)
}

// checkDrift fails if books ever differed from claims.
func checkDrift(context.Context) error {
	families, err := metrics.Gather()
	if err != nil {
		return err
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "bursar_ledger_drift_total" && metric.GetCounter().GetValue() > 0 {
				return fmt.Errorf("the books drifted: %v", metric)
			}
		}
	}
	return nil
}

// give grants a consumer one machine, and waits until that counts.
func give(t *testing.T, consumer quotav1alpha1.ConsumerRef) *quotav1alpha1.ResourceGrant {
	t.Helper()
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: consumer.Name, Namespace: "default"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: consumer, Allowances: []quotav1alpha1.Allowance{{ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: 1}}}},
	}}
	await.NoError(t, soon, func() error { return admin.Create(t.Context(), grant) })
	await.NoError(t, soon, func() error {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(grant), grant)
		if err == nil && !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			err = fmt.Errorf("the grant is not active: %+v", grant.Status.Conditions)
		}
		return err
	})
	return grant
}

// claim asks for one machine, and waits until that is decided, which is whether it is granted.
func claim(t *testing.T, consumer quotav1alpha1.ConsumerRef, name string, want metav1.ConditionStatus) *quotav1alpha1.ResourceClaim {
	t.Helper()
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: quotav1alpha1.ResourceClaimSpec{
		ConsumerRef: consumer, ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: name, Namespace: "default"},
		Requests: []quotav1alpha1.ResourceRequest{{ResourceType: resourceType, Amount: 1}},
	}}
	await.NoError(t, soon, func() error { return admin.Create(t.Context(), claim) })
	await.NoError(t, soon, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
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

func organization(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: platform.Group, Version: "v1", Kind: platform.Kind})
	object.SetName(name)
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func remove(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// left returns what is left of a consumer.
func left(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (found []string, err error) {
	err = admin.Get(ctx, client.ObjectKey{Name: naming.Ledger(consumer)}, &quotav1alpha1.ConsumerLedger{})
	if err == nil {
		found = append(found, "the ledger")
	}
	var effective quotav1alpha1.EffectiveResourceGrantList
	var buckets quotav1alpha1.AllowanceBucketList
	err = errors.Join(client.IgnoreNotFound(err), admin.List(ctx, &effective), admin.List(ctx, &buckets))
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
	families, gatherErr := metrics.Gather()
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

// wantLeft waits until just this is left of a consumer.
func wantLeft(t *testing.T, consumer quotav1alpha1.ConsumerRef, want ...string) {
	t.Helper()
	await.NoError(t, soon, func() error {
		found, err := left(t.Context(), consumer)
		if err == nil && fmt.Sprint(found) != fmt.Sprint(want) {
			err = fmt.Errorf("%q is left of %s, want %q", found, consumer.Name, want)
		}
		return err
	})
}

var everything = []string{"the ledger", "an effective grant", "a bucket with limit 0", "a metric"}

// comeAndGo gives something to a consumer that never existed, takes it back, and waits until no trace is left: after
// that, whatever else could go has gone too.
func comeAndGo(t *testing.T, name string) {
	t.Helper()
	consumer := platform.Consumer(name)
	remove(t, give(t, consumer))
	wantLeft(t, consumer)
}

func TestConsumerThatNeverExisted(t *testing.T) {
	consumer := platform.Consumer("ghost")
	waiting := claim(t, consumer, "ghost", metav1.ConditionFalse)
	comeAndGo(t, "before-ghost")
	wantLeft(t, consumer, everything[1:]...) // who waits sees why
	remove(t, waiting)
	wantLeft(t, consumer)
}

func TestConsumerThatIsDeleted(t *testing.T) {
	consumer, object := platform.Consumer("acme"), organization(t, "acme")
	grant := give(t, consumer)
	used := claim(t, consumer, "acme", metav1.ConditionTrue)
	remove(t, used, grant)
	comeAndGo(t, "before-acme")
	wantLeft(t, consumer, everything...)
	remove(t, object)
	wantLeft(t, consumer)
}

// TestConsumerOfAKindThatIsNotServed keeps what it has: nobody can tell whether it exists.
func TestConsumerOfAKindThatIsNotServed(t *testing.T) {
	kind := platform.Definition("later.example.com", "Team", "teams")
	consumer := quotav1alpha1.ConsumerRef{APIGroup: "later.example.com", Kind: "Team", Name: "later"}
	if err := admin.Create(t.Context(), &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "later.example.com/machines", Type: quotav1alpha1.RegistrationTypeEntity,
		ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: consumer.APIGroup, Kind: consumer.Kind},
		BaseUnit:        "machine", DisplayUnit: "machine", UnitConversionFactor: 1, ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
	}}); err != nil {
		t.Fatal(err)
	}
	shown := &quotav1alpha1.EffectiveResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: naming.EffectiveGrant(consumer, "later.example.com/machines"), Namespace: "bursar-system"},
		Spec:       quotav1alpha1.EffectiveResourceGrantSpec{ConsumerRef: consumer, ResourceType: "later.example.com/machines"},
	}
	if err := asBursar(t).Create(t.Context(), ledgerOf(consumer)); err != nil {
		t.Fatal(err)
	}
	if err := asBursar(t).Create(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	comeAndGo(t, "before-later")
	if found, err := left(t.Context(), consumer); err != nil || len(found) == 0 || found[0] != "the ledger" {
		t.Errorf("%q is left of a consumer whose kind is not served, %v; want all of it", found, err)
	}
	if err := admin.Create(t.Context(), kind); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, soon, func() error {
		err := admin.Get(t.Context(), client.ObjectKey{Name: naming.Ledger(consumer)}, &quotav1alpha1.ConsumerLedger{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the ledger to go once it can be told that the consumer does not exist", err)
		}
		return nil
	})
}

// TestDecisionsWhileTracesGo gives, claims, and takes back, again and again, while the controller removes what it finds.
func TestDecisionsWhileTracesGo(t *testing.T) {
	consumer := platform.Consumer("nomad")
	for round := range 40 {
		grant := give(t, consumer)
		first := claim(t, consumer, fmt.Sprintf("first-%d", round), metav1.ConditionTrue)
		second := claim(t, consumer, fmt.Sprintf("second-%d", round), metav1.ConditionFalse)
		remove(t, second, first, grant)
		if round%4 == 3 {
			wantLeft(t, consumer)
		}
	}
	wantLeft(t, consumer)
}

func ledgerOf(consumer quotav1alpha1.ConsumerRef) *quotav1alpha1.ConsumerLedger {
	return &quotav1alpha1.ConsumerLedger{
		ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(consumer)}, Spec: quotav1alpha1.ConsumerLedgerSpec{ConsumerRef: consumer},
	}
}

func asBursar(t *testing.T) client.Client {
	t.Helper()
	bursar, err := started.As(rest.ImpersonationConfig{UserName: apiserver.OperatorUser, Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	return bursar
}

// one is a consumer, and nothing else.
type one quotav1alpha1.ConsumerRef

func (o one) Consumers() []quotav1alpha1.ConsumerRef {
	return []quotav1alpha1.ConsumerRef{quotav1alpha1.ConsumerRef(o)}
}
func (one) Forget(quotav1alpha1.ConsumerRef) {}

// noClaims is a follower of claims that has seen none.
type noClaims struct{}

func (noClaims) WaitForSync(context.Context) error { return nil }
func (noClaims) ForConsumer(quotav1alpha1.ConsumerRef, func(*claimcache.Claim) bool) []*claimcache.Claim {
	return nil
}

// TestDecisionAtTheLastMoment reserves after the ledger was found to be empty, and before it is deleted.
func TestDecisionAtTheLastMoment(t *testing.T) {
	consumer := platform.Consumer("late")
	organization(t, "late") // the server's own controller leaves it alone
	bursar := asBursar(t)
	if err := bursar.Create(t.Context(), ledgerOf(consumer)); err != nil {
		t.Fatal(err)
	}
	var looks, reserved atomic.Int32
	controller := &departed.Controller{
		Client: bursar, Live: bursar, Consumers: one(consumer), Claims: noClaims{}, Interval: time.Millisecond,
		Objects: missing{&looks},
		Stored: claimsFunc(func(ctx context.Context, _ quotav1alpha1.ConsumerRef) ([]*claimcache.Claim, error) {
			ledger := &quotav1alpha1.ConsumerLedger{}
			if err := bursar.Get(ctx, client.ObjectKey{Name: naming.Ledger(consumer)}, ledger); err != nil {
				return nil, err
			}
			ledger.Spec.Sequence++
			ledger.Spec.Reservations = []quotav1alpha1.LedgerReservation{{
				Key: "late", Sequence: ledger.Spec.Sequence, ReservedAt: time.Now().Unix(),
				Charges: []quotav1alpha1.LedgerCharge{{ResourceType: resourceType, Amount: 1}},
			}}
			reserved.Add(1)
			return nil, bursar.Update(ctx, ledger)
		}),
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	await.NoError(t, soon, func() error {
		if reserved.Load() == 0 || looks.Load() < 10 {
			return fmt.Errorf("%d looks, %d reservations", looks.Load(), reserved.Load())
		}
		return nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	ledger := &quotav1alpha1.ConsumerLedger{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: naming.Ledger(consumer)}, ledger); err != nil || len(ledger.Spec.Reservations) != 1 {
		t.Errorf("got %v and the reservations %v, want the ledger to keep the one that was made at the last moment", err, ledger.Spec.Reservations)
	}
	if reserved.Load() != 1 {
		t.Errorf("the ledger was to be deleted %d times, want once: then it is not empty any more", reserved.Load())
	}
}

// TestLaterFormatStays finds a ledger without anything that this version knows of, which a later one has written.
func TestLaterFormatStays(t *testing.T) {
	consumer := platform.Consumer("later")
	organization(t, "later") // the server's own controller leaves it alone
	bursar := asBursar(t)
	stored := ledgerOf(consumer)
	stored.Spec.Format = quotav1alpha1.ConsumerLedgerFormat + 1
	if err := bursar.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int32
	controller := &departed.Controller{
		Client: bursar, Live: bursar, Consumers: one(consumer), Claims: noClaims{}, Interval: time.Millisecond,
		Objects: missing{&looks},
		Stored:  claimsFunc(func(context.Context, quotav1alpha1.ConsumerRef) ([]*claimcache.Claim, error) { return nil, nil }),
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	await.NoError(t, soon, func() error {
		if looks.Load() < 10 {
			return fmt.Errorf("%d looks", looks.Load())
		}
		return nil
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		t.Errorf("got %v, want the ledger to stay", err)
	}
}

// missing finds no object, and counts how often it looks.
type missing struct{ looks *atomic.Int32 }

func (m missing) Find(context.Context, quotav1alpha1.ConsumerRef) (departed.Existence, error) {
	m.looks.Add(1)
	return departed.NotFound, nil
}

// claimsFunc returns the claims of a consumer.
type claimsFunc func(context.Context, quotav1alpha1.ConsumerRef) ([]*claimcache.Claim, error)

func (f claimsFunc) ClaimsOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef) ([]*claimcache.Claim, error) {
	return f(ctx, consumer)
}
