// Package claimstest is an in-memory API server for ResourceClaims. Unlike the real one, it lets tests act in the
// middle of a request, fail a request, and hold back lists and watches. It numbers versions, rejects writes to
// outdated ones, and retains deleted claims while they have finalizers. Only tests import it.
package claimstest

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
)

// Server is an API server. Claims of all namespaces share one space of names. It is safe for concurrent use. Create it
// with [New].
type Server struct {
	mu     sync.Mutex
	claims map[string]*quotav1alpha1.ResourceClaim
	// events are all events since version 1. An empty one is for another object than a claim.
	events []metav1.WatchEvent
	// news is closed when there are more events. It is nil while there is no waiter.
	news chan struct{}
	// lists and watches hold back lists and watch events until they are closed.
	lists, watches chan struct{}
	intercept      func(method, name string) (fails bool)
}

// New returns a server with claims at their given versions.
func New(stored ...*quotav1alpha1.ResourceClaim) *Server {
	s := &Server{claims: map[string]*quotav1alpha1.ResourceClaim{}, lists: opened(), watches: opened()}
	for _, claim := range stored {
		s.Put(claim)
	}
	return s
}

func opened() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Client returns a client of the server. It takes no time and needs no network.
func (s *Server) Client(t testing.TB) *claims.Client {
	t.Helper()
	return ClientOf(t, s)
}

// ClientOf returns a client of a handler, such as an observer of the requests to a Server.
func ClientOf(t testing.TB, handler http.Handler) *claims.Client {
	t.Helper()
	client, err := claims.NewClient(&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: direct{handler}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Put stores a claim as it is, without a watch event.
func (s *Server) Put(claim *quotav1alpha1.ResourceClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[claim.Name] = claim.DeepCopy()
}

// Remove removes a claim without a watch event.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claims, name)
}

// Get returns a copy of the claim of a name, or nil.
func (s *Server) Get(name string) *quotav1alpha1.ResourceClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[name].DeepCopy()
}

// List returns copies of all claims in the order of their names.
func (s *Server) List() []*quotav1alpha1.ResourceClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*quotav1alpha1.ResourceClaim
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		list = append(list, s.claims[name].DeepCopy())
	}
	return list
}

// Change changes a stored claim under a new version, and sends a watch event.
func (s *Server) Change(name string, change func(*quotav1alpha1.ResourceClaim)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.claims[name].DeepCopy()
	change(claim)
	s.storeLocked(watch.Modified, claim)
}

// Touch increments the version of the server, as a write of another object does.
func (s *Server) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, metav1.WatchEvent{})
}

// HoldLists holds back lists until the returned function is called.
func (s *Server) HoldLists() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.lists = held
	return sync.OnceFunc(func() { close(held) })
}

// HoldWatches holds back watch events until the returned function is called.
func (s *Server) HoldWatches() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.watches = held
	return sync.OnceFunc(func() { close(held) })
}

// Intercept registers a function. The server calls it before each request except watches, with its method and the
// last part of its path. If it returns true, the request fails with an internal error. Nil registers none.
func (s *Server) Intercept(f func(method, name string) (fails bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

func (s *Server) versionLocked() string { return strconv.Itoa(1 + len(s.events)) }

// storeLocked stores a claim under a new version, or removes it, and sends a watch event.
func (s *Server) storeLocked(event watch.EventType, claim *quotav1alpha1.ResourceClaim) {
	s.events = append(s.events, metav1.WatchEvent{})
	claim.ResourceVersion = s.versionLocked()
	s.events[len(s.events)-1] = metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Object: claim.DeepCopy()}}
	if event == watch.Deleted {
		delete(s.claims, claim.Name)
	} else {
		s.claims[claim.Name] = claim
	}
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query, name := r.URL.Query(), path.Base(r.URL.Path)
	switch {
	case query.Has("sendInitialEvents"):
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // like a server without streamed lists
		return
	case query.Has("watch"):
		s.watch(w, r)
		return
	}
	s.mu.Lock()
	intercept, lists := s.intercept, s.lists
	s.mu.Unlock()
	if intercept != nil && intercept(r.Method, name) {
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	isList := r.Method == http.MethodGet && name == "resourceclaims"
	if isList {
		<-lists
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if isList {
		s.listLocked(w)
		return
	}
	s.answerLocked(w, r, name)
}

// answerLocked answers a request for one claim. The last part of the path is its name, or "status" after it.
func (s *Server) answerLocked(w http.ResponseWriter, r *http.Request, name string) {
	switch {
	case r.Method == http.MethodPost:
		s.createLocked(w, r)
	case r.Method == http.MethodPut && name == "status":
		s.updateStatusLocked(w, r, path.Base(path.Dir(r.URL.Path)))
	case s.claims[name] == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(s.claims[name])
	case r.Method == http.MethodPatch:
		s.patchLocked(w, r, s.claims[name].DeepCopy())
	case r.Method == http.MethodDelete:
		s.deleteLocked(w, r, s.claims[name].DeepCopy())
	default:
		fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	}
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
	})
}

// watch sends the events after a version.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := max(since-1, 0); r.Context().Err() == nil; {
		if !s.waitLocked(r, s.watches) {
			return
		}
		for ; next < len(s.events); next++ {
			if s.events[next].Type != "" {
				_ = json.NewEncoder(w).Encode(s.events[next])
			}
		}
		_ = http.NewResponseController(w).Flush()
		if s.news == nil {
			s.news = make(chan struct{})
		}
		s.waitLocked(r, s.news)
	}
}

// waitLocked waits, without the lock, until a channel is closed. It reports false if the request ends first.
func (s *Server) waitLocked(r *http.Request, c chan struct{}) bool {
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-c:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Server) listLocked(w http.ResponseWriter) {
	list := quotav1alpha1.ResourceClaimList{
		TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaimList"},
		ListMeta: metav1.ListMeta{ResourceVersion: s.versionLocked()}, Items: []quotav1alpha1.ResourceClaim{},
	}
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		list.Items = append(list.Items, *s.claims[name])
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (s *Server) createLocked(w http.ResponseWriter, r *http.Request) {
	claim := &quotav1alpha1.ResourceClaim{}
	_ = json.NewDecoder(r.Body).Decode(claim)
	if s.claims[claim.Name] != nil {
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	}
	if claim.APIVersion == quotav1alpha1.GroupVersion.String() {
		claim.Status = quotav1alpha1.ResourceClaimStatus{} // a version with a status subresource
	}
	claim.APIVersion = quotav1alpha1.GroupVersion.String()
	claim.UID = types.UID("uid-" + claim.Name + "-" + s.versionLocked())
	s.storeLocked(watch.Added, claim)
	_ = json.NewEncoder(w).Encode(claim)
}

func (s *Server) updateStatusLocked(w http.ResponseWriter, r *http.Request, name string) {
	var changed quotav1alpha1.ResourceClaim
	_ = json.NewDecoder(r.Body).Decode(&changed)
	stored := s.claims[name].DeepCopy()
	switch {
	case stored == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	case stored.ResourceVersion != changed.ResourceVersion:
		fail(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	stored.Status = changed.Status
	s.storeLocked(watch.Modified, stored)
	_ = json.NewEncoder(w).Encode(stored)
}

// patchLocked applies a merge patch of existing fields, or of lists.
func (s *Server) patchLocked(w http.ResponseWriter, r *http.Request, claim *quotav1alpha1.ResourceClaim) {
	version, before := claim.ResourceVersion, claim.Spec.DeepCopy()
	_ = json.NewDecoder(r.Body).Decode(claim)
	if !reflect.DeepEqual(before, &claim.Spec) {
		claim.Generation++
	}
	if claim.ResourceVersion != version {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	if claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0 {
		s.storeLocked(watch.Deleted, claim)
	} else {
		s.storeLocked(watch.Modified, claim)
	}
	_ = json.NewEncoder(w).Encode(claim)
}

func (s *Server) deleteLocked(w http.ResponseWriter, r *http.Request, claim *quotav1alpha1.ResourceClaim) {
	var options metav1.DeleteOptions
	_ = json.NewDecoder(r.Body).Decode(&options)
	switch p := options.Preconditions; {
	case p != nil && p.UID != nil && *p.UID != claim.UID:
		fail(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	case len(claim.Finalizers) == 0:
		s.storeLocked(watch.Deleted, claim)
	case claim.DeletionTimestamp == nil:
		claim.DeletionTimestamp = new(metav1.Now())
		s.storeLocked(watch.Modified, claim)
	}
	_ = json.NewEncoder(w).Encode(claim)
}
