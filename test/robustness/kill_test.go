// Package robustness kills a real standalone process again and again under load, and then
// holds what is stored against the invariants of docs/architecture.md.
package robustness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

const (
	resourceType = "robustness/configmaps"
	space        = "robustness"
	limit        = 40
	clients      = 8
	kills        = 5
)

// TestKillUnderLoad kills the server while clients create and delete at the limit. Afterwards
// every object that exists is charged exactly once, nothing else is, and everything that was
// acknowledged is still there.
func TestKillUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	klog.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	dir := t.TempDir()
	server := process.Start(t, dir)
	setUp(t, connect(t, server))
	for round := range kills {
		load := startLoad(t, server, round)
		load.waitBusy(t)
		server.Kill()
		acknowledged := load.stop()
		server = process.Start(t, dir)
		api := connect(t, server)
		checkAcknowledged(t, api, acknowledged)
		checkBooks(t, api)
		// The next round starts with room for everyone.
		if err := api.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(space)); err != nil {
			t.Fatal(err)
		}
		checkBooks(t, api)
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d after SIGTERM:\n%s", code, server.Output())
	}
}

func connect(t *testing.T, server *process.Server) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), quotav1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(server.Config(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func setUp(t *testing.T, api client.Client) {
	t.Helper()
	if err := platform.Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	consumer := platform.Consumer("acme")
	policy := &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "configmaps"},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("trigger.metadata.namespace == %q", space)}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "configmap-{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: consumer,
					Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: resourceType, Amount: 1}},
				},
			}},
		},
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}},
		&quotav1alpha1.ResourceRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: "configmaps"},
			Spec: quotav1alpha1.ResourceRegistrationSpec{
				ResourceType: resourceType, Type: quotav1alpha1.RegistrationTypeEntity,
				ConsumerTypeRef: platform.ConsumerType(),
				BaseUnit:        "map", DisplayUnit: "map", UnitConversionFactor: 1,
				ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
			},
		},
		&quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: space},
			Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: consumer, Allowances: []quotav1alpha1.Allowance{{
				ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: limit}},
			}}},
		},
		policy,
	} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s: %v", object.GetName(), err)
		}
	}
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(policy.Status.Conditions, quotav1alpha1.ConditionReady) {
			return fmt.Errorf("the policy is not ready: %+v", policy.Status.Conditions)
		}
		return nil
	})
}

// load creates and deletes until it is stopped, and remembers what was acknowledged.
type load struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	// created holds objects whose creation was acknowledged and whose deletion was not asked for.
	created map[types.UID]string
	count   int
}

func startLoad(t *testing.T, server *process.Server, round int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, created: map[types.UID]string{}}
	for n := range clients {
		api := connect(t, server)
		l.group.Go(func() { l.run(ctx, t, api, fmt.Sprintf("r%d-c%d", round, n)) })
	}
	return l
}

func (l *load) run(ctx context.Context, t *testing.T, api client.Client, prefix string) {
	var own []*corev1.ConfigMap
	for n := 0; ctx.Err() == nil; n++ {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, n), Namespace: space}}
		err := api.Create(ctx, object)
		switch {
		case err == nil:
			own = append(own, object)
			l.mu.Lock()
			l.created[object.UID] = object.Name
			l.count++
			l.mu.Unlock()
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
			if len(own) == 0 {
				continue
			}
			l.mu.Lock()
			delete(l.created, own[0].UID)
			l.mu.Unlock()
			_ = api.Delete(ctx, own[0]) // whatever becomes of it, it is no longer promised
			own = own[1:]
		case apierrors.IsForbidden(err):
			t.Errorf("create: %v", err)
		}
	}
}

// waitBusy waits until the load has met the limit many times.
func (l *load) waitBusy(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.count < 4*limit {
			return fmt.Errorf("%d objects were created", l.count)
		}
		return nil
	})
}

func (l *load) stop() map[types.UID]string {
	l.cancel()
	l.group.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.created)
}

// checkAcknowledged makes sure that everything that was acknowledged exists.
func checkAcknowledged(t *testing.T, api client.Client, acknowledged map[types.UID]string) {
	t.Helper()
	existing := list(t, api)
	for uid, name := range acknowledged {
		if existing[uid] == "" {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
	if len(existing) > limit {
		t.Errorf("%d objects exist, more than the limit of %d", len(existing), limit)
	}
}

func list(t *testing.T, api client.Client) map[types.UID]string {
	t.Helper()
	var all corev1.ConfigMapList
	if err := api.List(t.Context(), &all, client.InNamespace(space)); err != nil {
		t.Fatal(err)
	}
	objects := map[types.UID]string{}
	for _, object := range all.Items {
		objects[object.UID] = object.Name
	}
	return objects
}

// checkBooks waits until the books are quiet and compares objects, claims, ledger and bucket.
func checkBooks(t *testing.T, api client.Client) {
	t.Helper()
	eventually(t, func() error {
		objects := list(t, api)
		var claims quotav1alpha1.ResourceClaimList
		var ledgers quotav1alpha1.ConsumerLedgerList
		var buckets quotav1alpha1.AllowanceBucketList
		if err := errors.Join(api.List(t.Context(), &claims), api.List(t.Context(), &ledgers), api.List(t.Context(), &buckets)); err != nil {
			return err
		}
		charged := map[string]bool{}
		for _, claim := range claims.Items {
			uid := claim.Annotations[quotav1alpha1.AnnotationResourceUID]
			if charged[uid] {
				return fmt.Errorf("object %s has two claims", claim.Spec.ResourceRef.Name)
			}
			charged[uid] = true
			if objects[types.UID(uid)] == "" {
				return fmt.Errorf("claim %s is of an object that does not exist", claim.Name)
			}
			if !apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) {
				return fmt.Errorf("claim %s is not granted", claim.Name)
			}
		}
		if len(charged) != len(objects) {
			return fmt.Errorf("%d objects and %d claims exist", len(objects), len(charged))
		}
		for _, ledger := range ledgers.Items {
			if len(objects) > 0 && len(ledger.Spec.Used) == 0 {
				return fmt.Errorf("the ledger says nothing is used, %d objects exist", len(objects))
			}
			if len(ledger.Spec.Reservations)+len(ledger.Spec.Released) > 0 {
				return fmt.Errorf("%d reservations and %d releases are in flight", len(ledger.Spec.Reservations), len(ledger.Spec.Released))
			}
			for _, used := range ledger.Spec.Used {
				if int(used.Amount) != len(objects) || int(used.Claims) != len(objects) {
					return fmt.Errorf("the ledger says %d used by %d claims, %d objects exist", used.Amount, used.Claims, len(objects))
				}
			}
		}
		for _, bucket := range buckets.Items {
			if int(bucket.Status.Allocated) != len(objects) {
				return fmt.Errorf("the bucket says %d are allocated, %d objects exist", bucket.Status.Allocated, len(objects))
			}
		}
		return nil
	})
}

// eventually waits until check returns nil. The bound leaves room for reservations whose object
// never appeared, which are given up after 70 s at the earliest.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatal(last)
	}
}
