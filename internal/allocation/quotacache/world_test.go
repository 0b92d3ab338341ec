package quotacache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/allocation"
)

const system = "bursar-system"

// world is a cache with a watch of an API server. The test controls the lists and watches of this server, in any order.
// A real API server has a timing of its own.
type world struct {
	*testing.T
	api    *api
	quotas *Cache
	mu     sync.Mutex
	told   []told
}

// told is one call of a handler.
type told struct{ Before, After labels.Set }

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &api{events: map[string]chan []byte{"namespaces": make(chan []byte), "resourcequotas": make(chan []byte)}, listed: map[string]int{}}
		a.has("1", nil, nil)
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://server", Transport: a})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, api: a, quotas: New(client, system)}
		w.quotas.OnChange(func(before, after labels.Set) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, told{before, after})
		})
		test(w)
	})
}

// follow follows the API server until the test ends, and returns once it watches.
func (w *world) follow() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.quotas.Run(ctx)
	}()
	w.Cleanup(func() { cancel(); <-ended })
	w.must(w.quotas.WaitForSync(ctx))
	w.sinceThen()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// event sends an event over a watch, and returns once the cache has it.
func (w *world) event(kind watch.EventType, object runtime.Object) {
	w.Helper()
	which := "namespaces"
	if _, isQuota := object.(*corev1.ResourceQuota); isQuota {
		which = "resourcequotas"
	}
	w.api.events[which] <- encode(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encode(object)}})
	synctest.Wait()
}

// sinceThen returns the notifications of handlers since the previous call.
func (w *world) sinceThen() []told {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.told
	w.told = nil
	return told
}

// pods returns how many Pods each namespace takes without scopes, and the versions.
func (w *world) pods() (pods map[string]string, versions string) {
	o := w.quotas.Observe(labels.Everything(), "", nil)
	pods = map[string]string{}
	for namespace, used := range o.Used {
		amount := used[corev1.ResourcePods]
		pods[namespace] = amount.String()
	}
	return pods, o.Versions.Namespaces + "/" + o.Versions.ResourceQuotas
}

// api is an API server as a transport, fit for a bubble.
type api struct {
	mu         sync.Mutex
	namespaces *corev1.NamespaceList
	quotas     *corev1.ResourceQuotaList
	// events are the events of the watch of a resource.
	events map[string]chan []byte
	// listed counts the lists of a resource, each within delay. fails is the resource with failing lists.
	listed map[string]int
	delay  time.Duration
	fails  string
}

// has makes it list these.
func (a *api) has(version string, namespaces []*corev1.Namespace, quotas []*corev1.ResourceQuota) {
	a.mu.Lock()
	defer a.mu.Unlock()
	meta := metav1.ListMeta{ResourceVersion: version}
	a.namespaces = &corev1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}, ListMeta: meta}
	for _, namespace := range namespaces {
		a.namespaces.Items = append(a.namespaces.Items, *namespace)
	}
	a.quotas = &corev1.ResourceQuotaList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuotaList"}, ListMeta: meta}
	for _, quota := range quotas {
		a.quotas.Items = append(a.quotas.Items, *quota)
	}
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	which, query := path.Base(r.URL.Path), r.URL.Query()
	respond := func(code int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
	}
	switch {
	case query.Has("sendInitialEvents"):
		return respond(http.StatusUnprocessableEntity, http.NoBody) // like a server without streamed lists
	case query.Has("watch"):
		body, say := io.Pipe()
		go a.watch(r.Context(), a.events[which], say)
		return respond(http.StatusOK, body)
	}
	list, delay, err := a.list(which)
	if err != nil {
		return nil, err
	}
	time.Sleep(delay)
	return respond(http.StatusOK, io.NopCloser(bytes.NewReader(list)))
}

func (a *api) list(which string) (list []byte, delay time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed[which]++
	if a.fails == which {
		return nil, 0, errors.New("no route to host")
	}
	if which == "namespaces" {
		return encode(a.namespaces), a.delay, nil
	}
	return encode(a.quotas), a.delay, nil
}

func (a *api) watch(ctx context.Context, events <-chan []byte, say *io.PipeWriter) {
	for {
		select {
		case event := <-events:
			if _, err := say.Write(event); err != nil {
				return
			}
		case <-ctx.Done():
			_ = say.Close()
			return
		}
	}
}

func encode(object any) []byte {
	content, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return content
}

// namespace is one with labels such as team=acme.
func namespace(name, version string, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		metav1.SetMetaDataLabel(&n.ObjectMeta, key, value)
	}
	return n
}

// quotaOf is a ResourceQuota of amounts such as pods=1. Its UID is its path.
func quotaOf(in, name, version string, hard ...string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}}
	q.Namespace, q.Name, q.ResourceVersion, q.Spec.Hard = in, name, version, corev1.ResourceList{}
	for _, amount := range hard {
		name, quantity, _ := strings.Cut(amount, "=")
		q.Spec.Hard[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return as(q, in+"/"+name)
}

// as gives a ResourceQuota a UID and scopes.
func as(q *corev1.ResourceQuota, uid string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	q.UID, q.Spec.Scopes = types.UID(uid), scopes
	return q
}

// raiseOf is a change of a ResourceQuota.
func changeOf(q *corev1.ResourceQuota) allocation.QuotaChange {
	return allocation.QuotaChange{Namespace: q.Namespace, Name: q.Name, UID: q.UID}
}
