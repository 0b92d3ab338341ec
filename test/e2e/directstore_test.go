package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/kube/crdinstall"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// directClaims creates claims in two ways on a control plane without an operator.
type directClaims struct {
	*testing.T
	api client.WithWatch
	// direct writes into etcd, posted asks the API server.
	direct, posted *claims.Client
	namespace      *corev1.Namespace
}

func newDirectClaims(t *testing.T) *directClaims {
	t.Helper()
	plane := barePlane(t).plane
	definitions, err := apiextensionsclient.NewForConfig(plane.Config())
	must(t, err)
	must(t, crdinstall.Install(t.Context(), definitions, definitions.Discovery(), logr.Discard()))
	store, err := plane.Direct()
	must(t, err)
	httpClient, err := rest.HTTPClientFor(plane.Config())
	must(t, err)
	d := &directClaims{T: t, direct: newClaimClient(t, plane.Config(), httpClient, store), posted: newClaimClient(t, plane.Config(), httpClient, nil)}
	admin, err := server.Connect(plane.AdminKubeconfigPath())
	must(t, err)
	d.api = admin.Admin
	d.namespace = d.newNamespace()
	return d
}

func newClaimClient(t *testing.T, config *rest.Config, httpClient *http.Client, direct claims.Direct) *claims.Client {
	t.Helper()
	client, err := claims.NewClient(config, httpClient, direct)
	must(t, err)
	return client
}

func (d *directClaims) newNamespace() *corev1.Namespace {
	d.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "direct-"}}
	must(d, d.api.Create(d.Context(), namespace))
	return namespace
}

// claim returns a granted claim, as the engine makes it.
func (d *directClaims) claim(name string) *quotav1alpha1.ResourceClaim {
	now := metav1.Now().Rfc3339Copy()
	return &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.namespace.Name, Name: name, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, Finalizers: []string{"example.com/kept"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: d.namespace.Name, UID: d.namespace.UID}},
		},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: platform.Consumer("payer"), ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: name, Namespace: d.namespace.Name},
			Requests: []quotav1alpha1.ResourceRequest{{ResourceType: unit, Amount: 3, Dimensions: map[string]string{"region": "<one> & \"two\""}}},
		},
		Status: quotav1alpha1.ResourceClaimStatus{Conditions: []metav1.Condition{{
			Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue, Reason: "QuotaAvailable", Message: "there is room", LastTransitionTime: now, ObservedGeneration: 1,
		}}},
	}
}

func (d *directClaims) read(name string) *quotav1alpha1.ResourceClaim {
	d.Helper()
	claim := &quotav1alpha1.ResourceClaim{}
	must(d, d.api.Get(d.Context(), client.ObjectKey{Namespace: d.namespace.Name, Name: name}, claim))
	return claim
}

// A claim written into etcd equals the one made by the API server.
func TestDirectClaimIsAsPosted(t *testing.T) {
	t.Parallel()
	d := newDirectClaims(t)
	watched, err := d.api.Watch(t.Context(), &quotav1alpha1.ResourceClaimList{}, client.InNamespace(d.namespace.Name))
	must(t, err)
	defer watched.Stop()

	direct, err := d.direct.Create(t.Context(), d.claim("claim-1"))
	must(t, err)
	posted, err := d.posted.Create(t.Context(), d.claim("claim-2"))
	must(t, err)
	for _, made := range []*quotav1alpha1.ResourceClaim{direct, posted} {
		event := await.Receive(t, soon, watched.ResultChan())
		seen, ok := event.Object.(*quotav1alpha1.ResourceClaim)
		stored := d.read(made.Name)
		if !ok || event.Type != watch.Added || !reflect.DeepEqual(seen, stored) {
			t.Errorf("the watch of claim %s got %s %+v, want what is read, %+v", made.Name, event.Type, event.Object, stored)
		}
		if made.UID == "" || made.UID != stored.UID || made.ResourceVersion != stored.ResourceVersion || made.Generation != stored.Generation {
			t.Errorf("Create returned %+v, read was %+v", made.ObjectMeta, stored.ObjectMeta)
		}
		if age := time.Since(stored.CreationTimestamp.Time); age < 0 || age > time.Minute {
			t.Errorf("claim %s was created %s ago", made.Name, age)
		}
	}
	one, other := withoutOrigin(d.read("claim-1")), withoutOrigin(d.read("claim-2"))
	if !reflect.DeepEqual(one, other) {
		t.Errorf("written into etcd it reads %+v, posted %+v", one, other)
	}
}

// withoutOrigin leaves out the differences between any two claims, and the creator. Only posted claims have a recorded
// creator.
func withoutOrigin(claim *quotav1alpha1.ResourceClaim) *quotav1alpha1.ResourceClaim {
	claim.Name, claim.UID, claim.ResourceVersion, claim.CreationTimestamp, claim.ManagedFields = "", "", "", metav1.Time{}, nil
	claim.Spec.ResourceRef.Name = ""
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return claim
}

// The API server treats a claim written into etcd like any other.
func TestDirectClaimIsChangedAndDeleted(t *testing.T) {
	t.Parallel()
	d := newDirectClaims(t)
	_, err := d.direct.Create(t.Context(), d.claim("claim"))
	must(t, err)
	_, err = d.direct.Create(t.Context(), d.claim("claim"))
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("the second create: got %v, want AlreadyExists", err)
	}
	claim := d.read("claim")
	claim.Finalizers, claim.Labels = nil, map[string]string{"a": "changed"}
	must(t, d.api.Update(t.Context(), claim))
	claim.Status.Conditions[0].Message = "changed"
	must(t, d.api.Status().Update(t.Context(), claim))
	if changed := d.read("claim"); changed.Labels["a"] != "changed" || changed.Status.Conditions[0].Message != "changed" || changed.UID != claim.UID {
		t.Errorf("the changed claim reads %+v", changed)
	}
	must(t, d.api.Delete(t.Context(), claim))
	_, err = d.direct.Create(t.Context(), d.claim("claim"))
	must(t, err)
	if d.read("claim").UID == claim.UID {
		t.Error("a new claim has the UID of the deleted one of its name")
	}
	_, err = d.posted.Create(t.Context(), d.claim("claim"))
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("a claim that is posted under a taken name: got %v, want AlreadyExists", err)
	}
}

// One of many creates of a name succeeds.
func TestDirectClaimsOfOneName(t *testing.T) {
	t.Parallel()
	d := newDirectClaims(t)
	var created atomic.Int32
	var group errgroup.Group
	for range 16 {
		group.Go(func() error {
			_, err := d.direct.Create(t.Context(), d.claim("claim"))
			if err == nil {
				created.Add(1)
			} else if !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		})
	}
	must(t, group.Wait())
	if created.Load() != 1 {
		t.Errorf("%d creates succeeded, want 1", created.Load())
	}
}

// If a claim's namespace is missing or in deletion, the store returns the API server's error. It stores claims after
// mere changes of the namespace, and after its recreation.
func TestDirectClaimNeedsItsNamespace(t *testing.T) {
	t.Parallel()
	d := newDirectClaims(t)
	create := func(name string) error {
		_, err := d.direct.Create(t.Context(), d.claim(name))
		return err
	}
	must(t, create("first"))
	d.namespace.Labels["changed"] = "true"
	must(t, d.api.Update(t.Context(), d.namespace))
	must(t, create("second"))

	must(t, d.api.Delete(t.Context(), d.namespace)) // the finalizers of its claims keep it
	_, errPosted := d.posted.Create(t.Context(), d.claim("third"))
	for how, err := range map[string]error{"posted": errPosted, "direct": create("third"), "direct, under a taken name": create("second")} {
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("%s into a namespace that is being deleted: got %v", how, err)
		}
	}
	for _, name := range []string{"first", "second"} {
		eventually(t, func() error { // the deletion of the namespace changes the claim too
			claim := d.read(name)
			claim.Finalizers = nil
			return d.api.Update(t.Context(), claim)
		})
	}
	waitNotFound(t, d.api, removal, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace.Name}})
	if err := create("fourth"); !apierrors.IsNotFound(err) {
		t.Errorf("into a namespace that is gone: got %v, want NotFound", err)
	}
	must(t, d.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace.Name}}))
	must(t, create("fifth"))
	d.wantClaims("fifth")
}

// wantClaims compares the names of the claims in the namespace.
func (d *directClaims) wantClaims(want ...string) {
	d.Helper()
	var list quotav1alpha1.ResourceClaimList
	must(d, d.api.List(d.Context(), &list, client.InNamespace(d.namespace.Name)))
	var got []string
	for _, claim := range list.Items {
		got = append(got, claim.Name)
	}
	if !reflect.DeepEqual(got, want) {
		d.Errorf("the claims %v are in the namespace, want %v", got, want)
	}
}

// Writing claims during the deletion of their namespace leaves no claim behind.
func TestDirectClaimsWhileTheirNamespaceIsDeleted(t *testing.T) {
	t.Parallel()
	d := newDirectClaims(t)
	for range 5 {
		d.namespace = d.newNamespace()
		var started atomic.Int32
		group, ctx := errgroup.WithContext(t.Context())
		for worker := range 8 {
			group.Go(func() error {
				for i := range 5000 {
					claim := d.claim(fmt.Sprintf("claim-%d-%d", worker, i))
					claim.Finalizers = nil
					_, err := d.direct.Create(ctx, claim)
					if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
						return nil
					}
					if err != nil {
						return err
					}
					started.Add(1)
				}
				return errors.New("claims are still stored in a namespace that is being deleted")
			})
		}
		eventually(t, func() error {
			if started.Load() < 20 {
				return errors.New("the creates have not begun")
			}
			return nil
		})
		must(t, d.api.Delete(t.Context(), d.namespace))
		must(t, group.Wait())
		// There may be thousands of claims, and the machine may be busy.
		await.NoError(t, 5*time.Minute, func() error {
			if err := d.api.Get(context.WithoutCancel(ctx), client.ObjectKeyFromObject(d.namespace), &corev1.Namespace{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the namespace is still there: %v", err)
			}
			return nil
		})
		d.wantClaims()
	}
}

// A ledger written into etcd keeps its identity, and gives way to other writers.
func TestDirectLedger(t *testing.T) {
	t.Parallel()
	d := newDirectClaims(t)
	plane := barePlane(t).plane
	store, err := plane.Direct()
	must(t, err)
	httpClient, err := rest.HTTPClientFor(plane.Config())
	must(t, err)
	storage, err := ledgerstore.NewAPIStorage(plane.Config(), httpClient, store)
	must(t, err)
	consumer := platform.Consumer(d.namespace.Name)
	read := func() *quotav1alpha1.ConsumerLedger {
		t.Helper()
		object := &quotav1alpha1.ConsumerLedger{}
		must(t, d.api.Get(t.Context(), client.ObjectKey{Name: naming.Ledger(consumer)}, object))
		return object
	}
	write := func(sequence int64, expected ledgerstore.Version) (ledgerstore.Version, error) {
		return storage.Write(t.Context(), consumer, ledger.Snapshot{Sequence: sequence}, expected)
	}

	version, err := write(1, "")
	must(t, err)
	first := read()
	watched, err := d.api.Watch(t.Context(), &quotav1alpha1.ConsumerLedgerList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: first.ResourceVersion}})
	must(t, err)
	defer watched.Stop()
	for sequence := range int64(3) {
		version, err = write(sequence+2, version)
		must(t, err)
		stored := read()
		if stored.UID != first.UID || !stored.CreationTimestamp.Equal(&first.CreationTimestamp) || stored.Generation != first.Generation+sequence+1 {
			t.Errorf("after write %d the metadata is %+v, the first was %+v", sequence+2, stored.ObjectMeta, first.ObjectMeta)
		}
		if stored.ResourceVersion != string(version) {
			t.Errorf("write %d returned version %s, stored is %s", sequence+2, version, stored.ResourceVersion)
		}
		if event := await.Receive(t, soon, watched.ResultChan()); event.Type != watch.Modified || !reflect.DeepEqual(event.Object, stored) {
			t.Errorf("the watch got %s %+v, want %+v", event.Type, event.Object, stored)
		}
		if snapshot, at, err := storage.Read(t.Context(), consumer); err != nil || at != version || snapshot.Sequence != sequence+2 {
			t.Errorf("read back: %+v at %s, %v", snapshot, at, err)
		}
	}

	others := read()
	others.Labels = map[string]string{"changed": "true"}
	must(t, d.api.Update(t.Context(), others))
	if _, err := write(5, version); !errors.Is(err, ledgerstore.ErrConflict) {
		t.Errorf("over the change of somebody else: got %v, want a conflict", err)
	}
	version, err = write(6, ledgerstore.Version(others.ResourceVersion))
	must(t, err)
	var written atomic.Int32
	var group errgroup.Group
	for i := range int64(8) {
		group.Go(func() error {
			_, err := write(7+i, version)
			if err == nil {
				written.Add(1)
			} else if !errors.Is(err, ledgerstore.ErrConflict) {
				return err
			}
			return nil
		})
	}
	must(t, group.Wait())
	if written.Load() != 1 {
		t.Errorf("%d of 8 writes of one version succeeded, want 1", written.Load())
	}
	last := read()
	must(t, d.api.Delete(t.Context(), last))
	if _, err := write(20, ledgerstore.Version(last.ResourceVersion)); !errors.Is(err, ledgerstore.ErrConflict) {
		t.Errorf("after its deletion: got %v, want a conflict", err)
	}
	_, err = write(21, "")
	must(t, err)
	if read().UID == last.UID {
		t.Error("a new ledger has the UID of the deleted one")
	}
}
