package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/crds"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	kubesecrets "github.com/bursar/bursar/internal/kube/secrets"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/test/platform"
)

var (
	configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secretKind    = corev1.SchemeGroupVersion.WithKind("Secret")
)

// watched is a watcher of a test's own, on the control plane without an operator. The test declares the policies in
// place of the operator. Its namespaces and policies begin with its name.
type watched struct {
	*testing.T
	ctx     context.Context
	name    string
	api     client.WithWatch
	catalog *catalog.Catalog
	watcher *watcher.Watcher
	wire    *wire
	heard   *heard
}

// newWatched starts a watcher without policies. It ends with the test.
func newWatched(t *testing.T) *watched {
	t.Helper()
	config := rest.CopyConfig(barePlane(t).plane.Config())
	config.QPS = -1
	w := &watched{T: t, ctx: t.Context(), name: nameOf(t), catalog: catalog.New(), heard: newHeard(), wire: &wire{watches: map[*watchStream]struct{}{}}}
	types := runtime.NewScheme()
	must(t, errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types)))
	w.api = definePolicies(t, config, types)

	wired := rest.CopyConfig(config)
	wired.Wrap(func(next http.RoundTripper) http.RoundTripper { w.wire.RoundTripper = next; return w.wire })
	objects, err := dynamic.NewForConfig(wired)
	must(t, err)
	metadataOnly, err := metadata.NewForConfig(wired)
	must(t, err)
	tables, err := kubesecrets.New(wired, mustClient(t, wired))
	must(t, err)
	claimClient, err := claims.NewClient(wired, mustClient(t, wired), nil)
	must(t, err)
	kinds := newKinds(t, config)
	w.watcher = &watcher.Watcher{
		Inventory: inventory.New(), Catalog: w.catalog, Resolver: kinds, Definitions: objectcache.New(metadataOnly, kinds),
		Dynamic: objects, Secrets: tables, Metadata: metadataOnly, APIReader: ownPolicies{w.api, w.name}, SystemNamespace: w.name + "-system",
		Claims: claimcache.New(), ClaimClient: claimClient.REST(), Listener: w.heard, Log: funcr.New(w.heard.log, funcr.Options{Verbosity: 1}),
	}
	w.watcher.Start()
	kinds.OnChange(w.watcher.Wake)
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- kinds.Run(ctx) }()
	go func() { ended <- w.watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, errors.Join(<-ended, <-ended))
	})
	return w
}

func mustClient(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	must(t, err)
	return c
}

// newKinds makes the discovery of a test's own.
func newKinds(t *testing.T, config *rest.Config) *discoverycache.Cache {
	t.Helper()
	served, err := discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	definitions, err := apiextensionsclient.NewForConfig(config)
	must(t, err)
	return discoverycache.New(served, definitions)
}

// definePolicies makes the API server know policies and claims, and returns a client for them.
func definePolicies(t *testing.T, config *rest.Config, types *runtime.Scheme) client.WithWatch {
	t.Helper()
	definitions, err := crds.All()
	must(t, err)
	api, err := client.NewWithWatch(config, client.Options{Scheme: types})
	must(t, err)
	for _, d := range definitions {
		if kind := d.Spec.Names.Kind; kind != "ClaimCreationPolicy" && kind != "ResourceClaim" {
			continue
		}
		if err := api.Create(t.Context(), d); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		return errors.Join(api.List(t.Context(), &quotav1alpha1.ClaimCreationPolicyList{}), api.List(t.Context(), &quotav1alpha1.ResourceClaimList{}))
	})
	return api
}

// testLabel names the test that a policy belongs to.
const testLabel = "example.com/test"

// ownPolicies reads only the policies of one test.
type ownPolicies struct {
	client.Reader
	name string
}

func (o ownPolicies) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return o.Reader.List(ctx, list, append(options, client.MatchingLabels{testLabel: o.name})...)
}

// heard is what a watcher told.
type heard struct {
	mu           sync.Mutex
	began, ended map[types.UID][]quotav1alpha1.ConsumerRef
	// recounts counts how often a whole kind may have changed.
	recounts atomic.Int64
	// onFailure, if set, is called with what the log says about each object that a policy fails for.
	onFailure func(string)
}

func newHeard() *heard {
	return &heard{began: map[types.UID][]quotav1alpha1.ConsumerRef{}, ended: map[types.UID][]quotav1alpha1.ConsumerRef{}}
}

func (*heard) ObjectChanged(types.UID, []quotav1alpha1.ConsumerRef) {}

func (h *heard) KindChanged(string, []quotav1alpha1.ConsumerRef) { h.recounts.Add(1) }

func (h *heard) DeletionBegan(uid types.UID, consumers []quotav1alpha1.ConsumerRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began[uid] = consumers
}

func (h *heard) DeletionEnded(uid types.UID, consumers []quotav1alpha1.ConsumerRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended[uid] = consumers
}

// log is the log of the watcher.
func (h *heard) log(_, line string) {
	if !strings.Contains(line, "a policy that fails for it") {
		return
	}
	if onFailure := lookUp(h, func() func(string) { return h.onFailure }); onFailure != nil {
		onFailure(line)
	}
}

func (h *heard) setOnFailure(f func(string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onFailure = f
}

// lookUp returns what look finds, under the lock.
func lookUp[T any](h *heard, look func() T) T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return look()
}

func (w *watched) resourceType() string { return w.name + "/sizes" }

// namespace is the full name of one of the test's namespaces.
func (w *watched) namespace(name string) string { return w.name + "-" + name }

// newNamespace makes a namespace, with labels as pairs of name and value.
func (w *watched) newNamespace(name string, labels ...string) *corev1.Namespace {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace(name)}}
	for i := 0; i < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, labels[i], labels[i+1])
	}
	w.create(namespace)
	w.Cleanup(func() { must(w, client.IgnoreNotFound(w.api.Delete(context.Background(), namespace))) })
	return namespace
}

// sized is a ConfigMap of a size.
func (w *watched) sized(namespace, name string, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(namespace), Name: name},
		Data:       map[string]string{"size": strconv.Itoa(size)},
	}
}

func (w *watched) create(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		must(w, w.api.Create(w.ctx, object))
	}
}

func (w *watched) update(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		must(w, w.api.Update(w.ctx, object))
	}
}

func (w *watched) delete(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		must(w, w.api.Delete(w.ctx, object))
	}
}

// edit changes an object in its stored form.
func edit[T client.Object](w *watched, object T, how func(T)) {
	w.Helper()
	must(w, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		how(object)
		return w.api.Update(w.ctx, object)
	}))
}

// label sets a label of a namespace.
func (w *watched) label(namespace, name, value string) {
	w.Helper()
	edit(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace(namespace)}}, func(n *corev1.Namespace) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, name, value)
	})
}

// endNamespace deletes a namespace, and waits until its controller has deleted the content.
func (w *watched) endNamespace(name string) {
	w.Helper()
	key := client.ObjectKey{Name: w.namespace(name)}
	w.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Name}})
	eventually(w, func() error {
		err := w.api.Get(w.ctx, key, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("namespace %s still exists", key.Name))
	})
}

// policyOf is a policy without claims. An object of the kind demands what the expression says.
func (w *watched) policyOf(name string, kind schema.GroupVersionKind, amount string) *quotav1alpha1.ClaimCreationPolicy {
	apiVersion, kindName := kind.ToAPIVersionAndKind()
	p := &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace(name), Labels: map[string]string{testLabel: w.name}},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Claims: quotav1alpha1.ClaimsModeNone,
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: apiVersion, Kind: kindName},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("trigger.metadata.namespace.startsWith(%q)", w.name+"-")}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: platform.Consumer("acme"),
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: w.resourceType(), AmountExpression: amount}},
				},
			}},
		},
	}
	if size, err := strconv.ParseInt(amount, 10, 64); err == nil {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0] = quotav1alpha1.ResourceRequestTemplate{ResourceType: w.resourceType(), Amount: size}
	}
	return p
}

const (
	// bySize makes a ConfigMap demand its size. It is not applicable without a number.
	bySize = "int(trigger.data.size)"
	// ownerLabel of a namespace names the consumer of its objects for [payingOwner].
	ownerLabel = "example.com/owner"
)

// payingOwner makes the owner of a namespace pay for its objects.
func payingOwner(p *quotav1alpha1.ClaimCreationPolicy) *quotav1alpha1.ClaimCreationPolicy {
	p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{index .namespaceObject.metadata.labels "` + ownerLabel + `"}}`
	return p
}

// store creates or updates a policy on the API server, and lets the catalog know. Nothing confirms it yet.
func (w *watched) store(p *quotav1alpha1.ClaimCreationPolicy) {
	w.Helper()
	if p.UID == "" {
		w.create(p)
		w.Cleanup(func() { must(w, client.IgnoreNotFound(w.api.Delete(context.Background(), p))) })
	} else {
		w.update(p)
	}
	w.know(p)
}

// confirm writes the status of a policy as the leader does, and lets the catalog know.
func (w *watched) confirm(p *quotav1alpha1.ClaimCreationPolicy) {
	w.Helper()
	spec, err := json.Marshal(p.Spec)
	must(w, err)
	p.Status.Effective = &quotav1alpha1.EffectivePolicy{Generation: p.Generation, Spec: runtime.RawExtension{Raw: spec}}
	apimeta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: p.Generation, Reason: "Ready",
	})
	must(w, w.api.Status().Update(w.ctx, p))
	w.know(p)
}

func (w *watched) know(p *quotav1alpha1.ClaimCreationPolicy) {
	w.Helper()
	if errs := w.catalog.SetPolicy(p.DeepCopy()); len(errs) > 0 {
		w.Fatal(errs.ToAggregate())
	}
	w.watcher.Refresh()
}

// declare makes a policy effective.
func (w *watched) declare(p *quotav1alpha1.ClaimCreationPolicy) *quotav1alpha1.ClaimCreationPolicy {
	w.Helper()
	w.store(p)
	w.confirm(p)
	return p
}

// remove deletes a policy, and lets the catalog know.
func (w *watched) remove(p *quotav1alpha1.ClaimCreationPolicy) {
	w.Helper()
	w.delete(p)
	w.catalog.RemovePolicy(p.Name)
	w.watcher.Refresh()
	w.watcher.Wake()
}

// observed returns what the objects of a kind demand of a consumer, or false without a list.
func (w *watched) observed(kind schema.GroupVersionKind, consumer string) (o ledger.Observation, isListed bool) {
	isListed = w.watcher.View(inventory.NameOf(kind), platform.Consumer(consumer), func(seen ledger.Observation, _ ledger.Observer) { o = seen })
	return o, isListed
}

// demand describes what the ConfigMaps demand of a consumer.
func (w *watched) demand(consumer string) string { return w.demandOf(configMapKind, consumer) }

func (w *watched) demandOf(kind schema.GroupVersionKind, consumer string) string {
	o, isListed := w.observed(kind, consumer)
	if !isListed {
		return "not listed"
	}
	return describeDemands(o.Demands)
}

func describeDemands(demands []ledger.Demand) string {
	texts := make([]string, 0, len(demands))
	for _, d := range demands {
		texts = append(texts, fmt.Sprintf("%d by %d", d.Amount, d.Objects))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// wantDemand waits until the ConfigMaps demand something of a consumer, such as "5 by 2": 5 by two objects.
func (w *watched) wantDemand(consumer, want string) {
	w.Helper()
	w.wantDemandOf(configMapKind, consumer, want)
}

func (w *watched) wantDemandOf(kind schema.GroupVersionKind, consumer, want string) {
	w.Helper()
	eventually(w, func() error {
		if got := w.demandOf(kind, consumer); got != want {
			return fmt.Errorf("the demand of %s is %q, want %q", consumer, got, want)
		}
		return nil
	})
}

// visibility is what the inventory knows of a ConfigMap.
func (w *watched) visibility(uid types.UID) (v ledger.Visibility) {
	w.watcher.View(inventory.NameOf(configMapKind), platform.Consumer("acme"), func(_ ledger.Observation, by ledger.Observer) {
		v = by.Visibility(&ledger.Reservation{Awaits: &ledger.Awaited{ID: string(uid)}})
	})
	return v
}

// waitFor waits until a channel is closed.
func (w *watched) waitFor(c <-chan struct{}) {
	w.Helper()
	eventually(w, func() error {
		if !isClosed(c) {
			return errors.New("what the test waits for has not happened")
		}
		return nil
	})
}

// snapshot is what the ConfigMaps demanded of a consumer at one time.
type snapshot struct {
	consumer string
	// recounts is how often the kind was counted anew before.
	recounts int64
	ledger.Observation
}

func (w *watched) snapshot(consumer string) snapshot {
	recounts := w.heard.recounts.Load()
	o, _ := w.observed(configMapKind, consumer)
	return snapshot{consumer, recounts, o}
}

// wantTraceable requires that the changes since then lead to the present demand, if the inventory says that it has all.
// It may be wrong if the kind has been counted anew: the demand may rest on later policies and namespaces than it says.
func (w *watched) wantTraceable(then snapshot) {
	w.Helper()
	if err := w.trace(then); err != nil && !w.isRecounted(then) {
		w.Error(err)
	}
}

// isRecounted reports whether the kind has been counted anew since then. The watcher says so a moment later.
func (w *watched) isRecounted(then snapshot) bool {
	err := wait.PollUntilContextTimeout(w.ctx, time.Millisecond, time.Second, true, func(context.Context) (bool, error) {
		return w.heard.recounts.Load() > then.recounts, nil
	})
	return err == nil
}

// trace adds up the changes since then.
func (w *watched) trace(then snapshot) (err error) {
	w.watcher.View(inventory.NameOf(configMapKind), platform.Consumer(then.consumer), func(now ledger.Observation, by ledger.Observer) {
		changes, hasAll := by.ChangesSince(then.Basis)
		if !hasAll {
			return
		}
		sums := map[ledger.Dimensions]ledger.Amount{}
		for _, d := range then.Demands {
			sums[d.Dimensions] += d.Amount
		}
		for _, c := range changes {
			for _, charge := range c.Changes {
				sums[charge.Dimensions] += charge.Amount
			}
		}
		for _, d := range now.Demands {
			sums[d.Dimensions] -= d.Amount
		}
		for _, difference := range sums {
			if difference != 0 {
				err = fmt.Errorf("the changes from %+v to %+v are %+v", then.Observation, now, changes)
			}
		}
	})
	return err
}
