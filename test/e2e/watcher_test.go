package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/test/platform"
)

func TestWatcherCountsWhatExists(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	before, small := w.sized("a", "before", 3), w.sized("a", "small", 1)
	w.create(before, small)

	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "4 by 2")

	first := w.snapshot("acme")
	created := w.sized("a", "created", 5)
	w.create(created)
	w.wantDemand("acme", "9 by 3")
	small.Data["size"] = "2"
	w.update(small)
	w.wantDemand("acme", "10 by 3")
	w.delete(before)
	w.wantDemand("acme", "7 by 2")
	w.wantTraceable(first)
	if v := w.visibility(before.UID); !v.IsDeleted {
		t.Errorf("the deleted object is %+v", v)
	}
	if v := w.visibility(created.UID); fmt.Sprint(v.Version) != created.ResourceVersion {
		t.Errorf("the created object is %+v, want version %s", v, created.ResourceVersion)
	}
}

// The former demand stays, and follows its objects, until the list for the changed policy is there.
func TestWatcherRecountsByAChangedPolicy(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	w.create(w.sized("a", "one", 3), w.sized("a", "two", 4))
	policy := w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "7 by 2")

	list := w.wire.holdEvents("configmaps", metav1.InitialEventsAnnotationKey)
	defer list.end()
	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "10 * " + bySize
	w.declare(policy)
	w.waitFor(list.reached)
	w.wantDemand("acme", "7 by 2")
	w.create(w.sized("a", "three", 1))
	w.wantDemand("acme", "8 by 3")
	list.end()
	w.wantDemand("acme", "80 by 3")

	eventually(t, func() error {
		o, _ := w.observed(configMapKind, "acme")
		if version := w.catalog.PolicyVersion(policy.Name); uint64(o.Basis.Policies) < version {
			return fmt.Errorf("the demand rests on the policies of version %d, the policy has %d", o.Basis.Policies, version)
		}
		return nil
	})
}

// Only once nothing counts a kind any more may its observed demand be dropped.
func TestWatcherWithoutItsPolicy(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	name := inventory.NameOf(configMapKind)
	w.newNamespace("a")
	w.create(w.sized("a", "one", 3))
	policy := w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "3 by 1")
	observed, _ := w.observed(configMapKind, "acme")
	if w.watcher.IsRetired(name, observed.Basis) {
		t.Error("a counted kind is retired")
	}

	w.remove(policy)
	eventually(t, func() error {
		isListed := w.watcher.IsListed(name) // the list goes first
		if w.watcher.IsRetired(name, observed.Basis) {
			if isListed {
				w.Error("the kind is retired, and its demand counts")
			}
			return nil
		}
		return fmt.Errorf("the kind is not retired, with a list: %t", isListed)
	})
	if kinds := w.watcher.Kinds(); slices.Contains(kinds, name) {
		t.Errorf("there are the kinds %v", kinds)
	}
	if consumers := w.watcher.Consumers(); slices.Contains(consumers, platform.Consumer("acme")) {
		t.Errorf("there is demand of %v", consumers)
	}
}

// Another process that has observed by later policies may know a policy that this one has yet to see.
func TestWatcherRetiresAsOfThePolicies(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	name := inventory.NameOf(configMapKind)
	eventually(t, func() error {
		if !w.watcher.IsRetired(name, ledger.Basis{}) {
			return fmt.Errorf("a kind without policies is not retired")
		}
		return nil
	})

	unknown := w.policyOf("sizes", configMapKind, bySize)
	w.create(unknown)
	observed := ledger.Basis{Policies: versionOfObject(t, unknown)}
	for range 20 {
		if w.watcher.IsRetired(name, observed) {
			t.Fatal("the kind is retired, although another process knows a policy")
		}
	}
	w.delete(unknown)
	eventually(t, func() error {
		if !w.watcher.IsRetired(name, observed) {
			return fmt.Errorf("the kind is not retired, although its policy was deleted")
		}
		return nil
	})
}

func versionOfObject(t *testing.T, object client.Object) (version ledger.Version) {
	t.Helper()
	_, err := fmt.Sscan(object.GetResourceVersion(), &version)
	must(t, err)
	return version
}

// definition defines a kind of a test's own, with some versions.
func (w *watched) definition(versions ...string) (*apiextensionsv1.CustomResourceDefinition, schema.GroupKind) {
	group := w.name + ".example.com"
	d := platform.Definition(group, "Machine", "machines")
	d.Spec.Scope = apiextensionsv1.NamespaceScoped
	for i, version := range versions {
		v := *d.Spec.Versions[0].DeepCopy()
		v.Name, v.Storage = version, i == 0
		d.Spec.Versions = append(d.Spec.Versions, v)
	}
	d.Spec.Versions = d.Spec.Versions[1:]
	return d, schema.GroupKind{Group: group, Kind: "Machine"}
}

// machine creates an object of that kind once it is served.
func (w *watched) machine(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	w.Helper()
	var object *unstructured.Unstructured
	eventually(w, func() error {
		object = &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(w.namespace(namespace))
		object.SetName(name)
		return w.api.Create(w.ctx, object)
	})
	return object
}

// Each version of a kind counts by the policies for it.
func TestWatcherTwoVersionsOfAKind(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	definition, kind := w.definition("v1", "v2")
	w.create(definition)
	w.Cleanup(func() { must(t, w.api.Delete(context.Background(), definition)) })
	w.machine(kind.WithVersion("v1"), "a", "one")

	w.declare(w.policyOf("v1", kind.WithVersion("v1"), "1"))
	second := w.declare(w.policyOf("v2", kind.WithVersion("v2"), "20"))
	w.wantDemandOf(kind.WithVersion("v1"), "acme", "1 by 1")
	w.wantDemandOf(kind.WithVersion("v2"), "acme", "20 by 1")
	w.machine(kind.WithVersion("v2"), "a", "two")
	w.wantDemandOf(kind.WithVersion("v1"), "acme", "2 by 2")
	w.wantDemandOf(kind.WithVersion("v2"), "acme", "40 by 2")

	w.remove(second)
	w.wantDemandOf(kind.WithVersion("v2"), "acme", "not listed")
	w.machine(kind.WithVersion("v2"), "a", "three")
	w.wantDemandOf(kind.WithVersion("v1"), "acme", "3 by 3")
}

// A policy changes to another version of its kind. The objects count as those of the former one until the latter is
// listed: otherwise all quota would be free meanwhile.
func TestWatcherCountsUntilTheNewVersionIsListed(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	definition, kind := w.definition("v1beta1", "v1")
	former, latest, unwatched := kind.WithVersion("v1beta1"), kind.WithVersion("v1"), kind.WithVersion("v1alpha1")
	w.create(definition)
	w.Cleanup(func() { must(t, w.api.Delete(context.Background(), definition)) })
	w.machine(former, "a", "one")
	policy := w.declare(w.policyOf("machines", former, "1"))
	w.wantDemandOf(former, "acme", "1 by 1")

	list := w.wire.holdEvents("machines", latest.GroupVersion().String()+`"`)
	defer list.end()
	policy.Spec.Trigger.Resource.APIVersion = latest.GroupVersion().String()
	w.declare(policy)
	w.waitFor(list.reached)
	w.checkNow()
	w.wantDemandOf(former, "acme", "1 by 1")
	w.machine(former, "a", "two")
	w.wantDemandOf(former, "acme", "2 by 2")
	for _, version := range []schema.GroupVersionKind{former, unwatched} { // the latter may have counted before a restart
		if w.watcher.IsRetired(inventory.NameOf(version), ledger.Basis{}) {
			t.Errorf("%s is retired before the new version is listed", version)
		}
	}
	if uncounted := w.watcher.Uncounted(); len(uncounted) != 1 || uncounted[0] != latest {
		t.Errorf("%v are uncounted, want the new version", uncounted)
	}

	list.end()
	w.wantDemandOf(latest, "acme", "2 by 2")
	if uncounted := w.watcher.Uncounted(); len(uncounted) > 0 {
		t.Errorf("%v are uncounted, although they have been listed", uncounted)
	}
	w.wantDemandOf(former, "acme", "not listed")
	for _, version := range []schema.GroupVersionKind{former, unwatched} {
		if !w.watcher.IsRetired(inventory.NameOf(version), ledger.Basis{}) {
			t.Errorf("%s is not retired", version)
		}
	}
}

// A kind counts once it is defined. While it is only not served, its demand stays.
func TestWatcherOfAKindThatIsAway(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	definition, kind := w.definition("v1")
	v1, name := kind.WithVersion("v1"), inventory.NameOf(kind.WithVersion("v1"))
	policy := w.declare(w.policyOf("machines", v1, "1"))
	wantRetired := func(want bool) {
		t.Helper()
		eventually(t, func() error {
			if got := w.watcher.IsRetired(name, ledger.Basis{}); got != want {
				return fmt.Errorf("the kind is retired: %t, want %t", got, want)
			}
			return nil
		})
	}
	wantRetired(true)
	if uncounted := w.watcher.Uncounted(); len(uncounted) > 0 {
		t.Errorf("%v are uncounted, although nothing defines them", uncounted)
	}

	w.create(definition)
	w.machine(v1, "a", "one")
	w.wantDemandOf(v1, "acme", "1 by 1")
	wantRetired(false)

	edit(w, definition, func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false })
	eventually(t, func() error {
		if _, isServed, err := w.watcher.Resolver.VersionedResourceFor(w.ctx, v1); isServed || err != nil {
			return fmt.Errorf("the kind is served: %t, %w", isServed, err)
		}
		return nil
	})
	w.checkNow()
	w.wantDemandOf(v1, "acme", "1 by 1")
	wantRetired(false)

	w.delete(definition)
	w.wantDemandOf(v1, "acme", "not listed")
	wantRetired(true)

	// As far as this process knows after the policy is gone, another one may count the kind by a later policy.
	w.remove(policy)
	w.checkNow()
	if w.watcher.IsRetired(name, ledger.Basis{Policies: 1 << 60}) {
		t.Error("the kind is retired, whatever policy another process knows")
	}
}

// checkNow waits until the watcher has compared the kinds with the policies.
func (w *watched) checkNow() {
	w.Helper()
	w.newNamespaceOnce("marker")
	marker := w.policyOf(fmt.Sprint("marker-", time.Now().UnixNano()), corev1.SchemeGroupVersion.WithKind("ServiceAccount"), "1")
	w.declare(marker)
	name := inventory.NameOf(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	eventually(w, func() error {
		if !w.watcher.IsListed(name) {
			return fmt.Errorf("there is no list")
		}
		return nil
	})
	w.remove(marker)
	eventually(w, func() error {
		if w.watcher.IsListed(name) {
			return fmt.Errorf("there is a list")
		}
		return nil
	})
}

func (w *watched) newNamespaceOnce(name string) {
	w.Helper()
	if err := w.api.Get(w.ctx, client.ObjectKey{Name: w.namespace(name)}, &corev1.Namespace{}); err != nil {
		w.newNamespace(name)
	}
}

// A replica that starts later cannot know what an object demanded before its policy failed. So nobody counts that.
func TestWatcherCountsNothingWhereAPolicyFails(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	one := w.sized("a", "one", 3)
	never := w.sized("a", "never", 1)
	never.Data["size"] = "much"
	w.create(one, never, w.sized("a", "two", 4))
	policy := w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "7 by 2")

	one.Data["size"] = "more"
	w.update(one)
	w.wantDemand("acme", "4 by 1")
	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "2 * " + bySize
	w.declare(policy)
	w.wantDemand("acme", "8 by 1")

	one.Data["size"] = "5"
	w.update(one)
	w.wantDemand("acme", "18 by 2")
}

func TestWatcherLeavesOutExemptNamespaces(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	w.newNamespace("system")
	exempt := w.sized("system", "exempt", 3)
	w.create(exempt)
	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.create(w.sized("a", "one", 4))
	w.wantDemand("acme", "4 by 1")
	exempt.Data["size"] = "9"
	w.update(exempt, w.sized("a", "one", 5))
	w.wantDemand("acme", "5 by 1")
}

// Policies see the type of a Secret, and nobody reads its content.
func TestWatcherReadsTypesOfSecrets(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a", ownerLabel, "acme")
	secret := func(name, size string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace("a"), Name: name, Labels: map[string]string{"size": size}},
			StringData: map[string]string{"password": "hunter2"},
		}
	}
	w.create(secret("one", "3"))
	w.declare(payingOwner(w.policyOf("secrets", secretKind, `trigger.type == "Opaque" && !has(trigger.data) ? int(trigger.metadata.labels.size) : 100`)))
	w.wantDemandOf(secretKind, "acme", "3 by 1")
	w.create(secret("two", "4"))
	w.wantDemandOf(secretKind, "acme", "7 by 2")
	w.update(secret("one", "5"))
	w.wantDemandOf(secretKind, "acme", "9 by 2")
	must(t, w.watcher.CatchUp(w.ctx, []string{inventory.NameOf(secretKind)}))
	w.label("a", ownerLabel, "blue") // its Secrets are listed
	w.wantDemandOf(secretKind, "blue", "9 by 2")
	w.wire.cut("secrets")
	w.delete(secret("one", ""))
	w.wantDemandOf(secretKind, "blue", "4 by 1")

	requests := w.wire.sent(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "secrets") })
	if len(requests) < 4 {
		t.Errorf("there are only %d requests about Secrets", len(requests))
	}
	for _, r := range requests {
		accepted := r.Header.Get("Accept")
		isPartial := strings.HasPrefix(accepted, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata") && r.URL.Query().Get("limit") == "1"
		if !isPartial && accepted != "application/json;as=Table;v=v1;g=meta.k8s.io" {
			t.Errorf("%s accepts %s", r.URL, accepted)
		}
	}
}

// Before the status confirms a policy, another process may count by a different one.
func TestWatcherWaitsForTheStatus(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	w.create(w.sized("a", "one", 3))
	policy := w.policyOf("sizes", configMapKind, bySize)
	w.store(policy)
	w.checkNow()
	if w.watcher.IsListed(inventory.NameOf(configMapKind)) {
		t.Error("the kind counts by a policy without status")
	}
	if w.watcher.IsRetired(inventory.NameOf(configMapKind), ledger.Basis{}) {
		t.Error("the kind is retired with a policy without status")
	}
	w.confirm(policy)
	w.wantDemand("acme", "3 by 1")

	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "10 * " + bySize
	w.store(policy)
	w.checkNow()
	w.create(w.sized("a", "two", 4))
	w.wantDemand("acme", "7 by 2")
	w.confirm(policy)
	w.wantDemand("acme", "70 by 2")
}

// After the call, everything before it is visible.
func TestWatcherCatchesUp(t *testing.T) {
	t.Parallel()
	const rounds = 200
	w := newWatched(t)
	w.newNamespace("a")
	kept := w.sized("a", "kept", 0)
	w.create(kept)
	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "")
	kinds := []string{inventory.NameOf(configMapKind)}
	if err := w.watcher.CatchUp(w.ctx, []string{"v1/Unknown"}); err == nil {
		t.Error("it is as recent as a kind that it does not count")
	}
	for round := range rounds {
		object := w.sized("a", "object", 1)
		w.create(object)
		w.delete(object)
		kept.Data["size"] = fmt.Sprint(round + 1)
		w.update(kept)

		must(t, w.watcher.CatchUp(w.ctx, kinds))
		if v := w.visibility(object.UID); !v.IsDeleted {
			t.Fatalf("round %d: after the deletion the object is %+v", round, v)
		}
		if v := w.visibility(kept.UID); v.Version < versionOfObject(t, kept) {
			t.Fatalf("round %d: version %d is visible, want %s", round, v.Version, kept.ResourceVersion)
		}
	}
}

// A deletion takes time while an object has finalizers. It ends although another watch has taken over, and although
// nobody sees it end.
func TestWatcherTellsOfDeletions(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*watched, *quotav1alpha1.ClaimCreationPolicy, func()){
		"watched": func(_ *watched, _ *quotav1alpha1.ClaimCreationPolicy, end func()) { end() },
		"by a changed policy": func(w *watched, policy *quotav1alpha1.ClaimCreationPolicy, end func()) {
			policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "10 * " + bySize
			w.declare(policy)
			w.wantDemand("acme", "30 by 1")
			end()
		},
		"between two lists": func(w *watched, _ *quotav1alpha1.ClaimCreationPolicy, end func()) {
			w.wire.refuse(1, http.StatusGone, metav1.StatusReasonExpired, isWatchOf("configmaps"))
			watches := w.wire.holdWatches("configmaps")
			defer watches.end()
			w.wire.cut("configmaps")
			w.waitFor(watches.reached)
			end()
			watches.end()
		},
		"without its policy": func(w *watched, policy *quotav1alpha1.ClaimCreationPolicy, end func()) {
			w.remove(policy)
			w.wantDemand("acme", "not listed")
			end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t)
			w.newNamespace("a")
			policy := w.declare(w.policyOf("sizes", configMapKind, bySize))
			object := w.sized("a", "one", 3)
			object.Finalizers = []string{"example.com/wait"}
			w.create(object)
			w.wantDemand("acme", "3 by 1")

			w.delete(object)
			w.wantTold("begins", w.heard.began, object)
			w.wantDemand("acme", "3 by 1")
			if lookUp(w.heard, func() bool { return w.heard.ended[object.UID] != nil }) {
				t.Error("the deletion has ended before the object is gone")
			}
			meanwhile(w, policy, func() { edit(w, object, func(o *corev1.ConfigMap) { o.Finalizers = nil }) })
			w.wantTold("has ended", w.heard.ended, object)
		})
	}
}

// An object that is being deleted when the watch begins is told of, too.
func TestWatcherTellsOfDeletionsBeforeTheList(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	object := w.sized("a", "one", 3)
	object.Finalizers = []string{"example.com/wait"}
	w.create(object)
	w.delete(object)
	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantTold("begins", w.heard.began, object)
	edit(w, object, func(o *corev1.ConfigMap) { o.Finalizers = nil })
	w.wantTold("has ended", w.heard.ended, object)
}

func (w *watched) wantTold(what string, told map[types.UID][]quotav1alpha1.ConsumerRef, object client.Object) {
	w.Helper()
	want := []quotav1alpha1.ConsumerRef{platform.Consumer("acme")}
	eventually(w, func() error {
		if diff := cmp.Diff(want, lookUp(w.heard, func() []quotav1alpha1.ConsumerRef { return slices.Clone(told[object.GetUID()]) })); diff != "" {
			return fmt.Errorf("the deletion %s for these consumers (-want +got):\n%s", what, diff)
		}
		return nil
	})
}

// isListOf selects lists of a resource, those of its metadata too.
func isListOf(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return path.Base(r.URL.Path) == resource && (!isWatch(r) || r.URL.Query().Has("sendInitialEvents"))
	}
}
