package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// server is an API server with nothing but claims.
type server struct {
	mu     sync.Mutex
	claims map[string]*quotav1alpha1.ResourceClaim
	// events are all that happened. The version of what is stored is their number, beginning at 1.
	events []metav1.WatchEvent
	// news is closed when there are more events, if anybody waits for it.
	news chan struct{}
	// late, if set, keeps what happens from who watches until it is closed.
	late chan struct{}
	// unlisted, if set, keeps the list of claims until it is closed.
	unlisted chan struct{}
	// fail, if set, is asked before a request is carried out, and true makes it fail.
	fail func(method, name string) bool
	// released, if set, is told of claims that were deleted, which are gone when it returns.
	released func(*quotav1alpha1.ResourceClaim)
}

func (s *server) version() string { return strconv.Itoa(len(s.events) + 1) }

// changed stores a claim under a new version and tells who watches.
func (s *server) changed(event watch.EventType, claim *quotav1alpha1.ResourceClaim) {
	s.events = append(s.events, metav1.WatchEvent{})
	claim.ResourceVersion = s.version()
	s.events[len(s.events)-1] = metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Object: claim.DeepCopy()}}
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// remove takes a claim away.
func (s *server) remove(claim *quotav1alpha1.ResourceClaim) {
	delete(s.claims, claim.Name)
	s.changed(watch.Deleted, claim)
}

// watch writes what happened since a version. It is called, and returns, with s.mu held.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.(http.Flusher).Flush()
	for next := since - 1; ; {
		if late := s.late; late != nil {
			s.mu.Unlock()
			select {
			case <-late:
			case <-r.Context().Done():
			}
			s.mu.Lock()
			if r.Context().Err() != nil {
				return
			}
		}
		for ; next < len(s.events); next++ {
			_ = json.NewEncoder(w).Encode(s.events[next])
		}
		w.(http.Flusher).Flush()
		if s.news == nil {
			s.news = make(chan struct{})
		}
		news := s.news
		s.mu.Unlock()
		select {
		case <-news:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason})
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	last := parts[len(parts)-1]
	switch {
	case r.URL.Query().Get("watch") != "":
		if r.URL.Query().Get("sendInitialEvents") != "" {
			fail(422, metav1.StatusReasonInvalid)
			return
		}
		s.watch(w, r)
	case s.fail != nil && s.fail(r.Method, last):
		fail(500, metav1.StatusReasonInternalError)
	case r.Method == http.MethodGet && last == "resourceclaims":
		if s.unlisted != nil {
			s.mu.Unlock()
			<-s.unlisted
			s.mu.Lock()
		}
		items := []any{}
		for _, c := range s.claims {
			items = append(items, c)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "quota.miloapis.com/v1alpha1", "kind": "ResourceClaimList", "metadata": map[string]any{"resourceVersion": s.version()}, "items": items})
	case r.Method == http.MethodGet:
		if c := s.claims[last]; c != nil {
			_ = json.NewEncoder(w).Encode(c)
			return
		}
		fail(404, metav1.StatusReasonNotFound)
	case r.Method == http.MethodPost:
		in := &quotav1alpha1.ResourceClaim{}
		_ = json.NewDecoder(r.Body).Decode(in)
		if s.claims[in.Name] != nil {
			fail(409, metav1.StatusReasonAlreadyExists)
			return
		}
		in.UID = types.UID("uid-" + in.Name + "-" + s.version())
		s.claims[in.Name] = in
		s.changed(watch.Added, in)
		_ = json.NewEncoder(w).Encode(in)
	case r.Method == http.MethodPut && last == "status":
		in := &quotav1alpha1.ResourceClaim{}
		_ = json.NewDecoder(r.Body).Decode(in)
		switch stored := s.claims[in.Name]; {
		case stored == nil:
			fail(404, metav1.StatusReasonNotFound)
			return
		case stored.ResourceVersion != in.ResourceVersion:
			fail(409, metav1.StatusReasonConflict)
			return
		}
		s.claims[in.Name].Status = in.Status
		s.changed(watch.Modified, s.claims[in.Name])
		_ = json.NewEncoder(w).Encode(s.claims[in.Name])
	case r.Method == http.MethodPatch && s.claims[last] != nil:
		// A merge patch of fields that are there, or lists.
		patched := s.claims[last].DeepCopy()
		_ = json.NewDecoder(r.Body).Decode(patched)
		if patched.ResourceVersion != s.claims[last].ResourceVersion {
			fail(409, metav1.StatusReasonConflict)
			return
		}
		s.claims[last] = patched
		s.changed(watch.Modified, patched)
		_ = json.NewEncoder(w).Encode(patched)
	case r.Method == http.MethodDelete && s.claims[last] != nil:
		claim := s.claims[last].DeepCopy()
		switch {
		case s.released == nil:
			s.remove(claim)
		case claim.DeletionTimestamp == nil:
			claim.DeletionTimestamp = new(metav1.Now())
			s.claims[last] = claim
			s.changed(watch.Modified, claim)
			go func() {
				s.released(claim.DeepCopy())
				s.mu.Lock()
				defer s.mu.Unlock()
				s.remove(claim)
			}()
		}
		_ = json.NewEncoder(w).Encode(claim)
	default:
		fail(404, metav1.StatusReasonNotFound)
	}
}

var acme = quotav1alpha1.ConsumerRef{Kind: "Org", Name: "acme"}

// withheld says of every kind that it is defined and not served.
type withheld struct{ asked atomic.Int64 }

func (w *withheld) DefinitionDeleted(schema.GroupKind) bool { return false }

func (w *withheld) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	w.asked.Add(1)
	return discoverycache.Withheld, schema.GroupVersionResource{}, nil
}

func newController(t *testing.T, s *server, states objectcache.Kinds, memory *storagetest.Memory) *Controller {
	h := httptest.NewServer(s)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	client, err := claims.NewClient(&rest.Config{Host: h.URL, QPS: -1}, h.Client())
	if err != nil {
		t.Fatal(err)
	}
	store := ledgerstore.New(t.Context(), memory.Connect(nil))
	transitions := engine.New(engine.Dependencies{
		Store: store, Objects: objectcache.New(nil, states), Claims: claimcache.New(),
		Client: client, Catalog: catalog.New(), SystemNamespace: "sys", Log: logr.Discard(),
	})
	c := &Controller{Store: store, Engine: transitions, Objects: transitions.Objects, Claims: transitions.Claims, Log: logr.Discard()}
	c.Start()
	return c
}

// Two reviews of one create, of which the first is settled before the second reserves, make one
// claim, also where its name is taken and it gets another.
func TestSecondReviewOfARenamedClaim(t *testing.T) {
	s := &server{claims: map[string]*quotav1alpha1.ResourceClaim{"taken": {
		TypeMeta:   metav1.TypeMeta{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "taken", UID: "other"}}}}
	memory := storagetest.New()
	c := newController(t, s, &withheld{}, memory)
	go c.Claims.Run(t.Context(), c.Engine.Client.REST())
	err := c.Store.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "t", Amount: 10}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		outline := claims.Intent{Claim: types.NamespacedName{Namespace: "ns", Name: "taken"}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Object: types.NamespacedName{Namespace: "ns", Name: "a"}}
		_, err := c.Store.Reserve(t.Context(), acme, ledger.Reservation{Key: ledgerstore.ObjectKey("p", "u"), ReservedAt: time.Now().Unix(), Charges: []ledger.Charge{{ResourceType: "t", Amount: 1}}, Claim: outline.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Store.ReservationsFor("u") {
			if _, err := c.Engine.Materialize(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			return len(memory.Books(acme).Reservations) == 0, nil
		})
		if err != nil {
			t.Fatal("a reservation is neither settled nor cancelled")
		}
	}
	if used := memory.Books(acme).Used; len(used) != 1 || used[0].Amount != 1 {
		t.Errorf("one object, %d claims; used %+v", len(s.claims)-1, used)
	}
}

// Claims of a kind that is not served are left alone, and the API server is asked about the kind and
// not about each.
func TestWithheldKindIsLeftAlone(t *testing.T) {
	s := &server{claims: map[string]*quotav1alpha1.ResourceClaim{}}
	const n = 100
	for i := range n {
		name := fmt.Sprint("c", i)
		s.claims[name] = &quotav1alpha1.ResourceClaim{TypeMeta: metav1.TypeMeta{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "p"},
				Annotations: map[string]string{quotav1alpha1.AnnotationResourceUID: "o" + name}, Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease}},
			Spec: quotav1alpha1.ResourceClaimSpec{ConsumerRef: acme, ResourceRef: quotav1alpha1.UnversionedObjectReference{APIGroup: "g", Kind: "Widget", Name: name}, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 1}}}}
	}
	states := &withheld{}
	c := newController(t, s, states, storagetest.New())
	go c.Claims.Run(t.Context(), c.Engine.Client.REST())
	if err := c.Claims.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.sweep(t.Context())
	if asked, queued := states.asked.Load(), c.Engine.Queue().Len(); asked != 1 || queued != 0 {
		t.Errorf("for %d claims the kind was looked up %d times and %d objects are to be processed", n, asked, queued)
	}
}
