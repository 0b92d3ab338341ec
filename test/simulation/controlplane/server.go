package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Server is an API server on a [Store]. It has a watch cache for each resource, which watches and lists at any version
// read. Each cache lags behind by itself. Everything else reads through to the store. After a consistent list, the
// cache is as recent as the list, as in Kubernetes. Create it with [NewServer].
type Server struct {
	store *Store
	lag   Lag

	mu     sync.Mutex
	caches map[string]*watchCache
	// refusing are the namespaces in which somebody refuses claims.
	refusing map[string]bool
	// isDown is set while the server does not run, and run counts its starts.
	isDown bool
	run    int
}

// watchCache is what a server knows of a resource.
type watchCache struct {
	// isAway is set while nobody serves the resource.
	isAway bool
	// seen is the version up to which it has all revisions.
	seen int64
	// news is closed when the cache sees more, or the server ends.
	news chan struct{}
}

// Lag is how far a server lags behind.
type Lag interface {
	// Lag returns how long a server takes to see the next revision.
	Lag() time.Duration
	// Bookmark returns how long a watch takes to tell that nothing else has happened.
	Bookmark() time.Duration
}

// NewServer returns a server of a store.
func NewServer(store *Store, lag Lag) *Server {
	s := &Server{store: store, lag: lag, caches: map[string]*watchCache{}, refusing: map[string]bool{}}
	version := store.Version()
	for resource := range kinds {
		s.caches[resource] = &watchCache{seen: version, news: make(chan struct{})}
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	store.servers = append(store.servers, s)
	return s
}

// Stop ends all watches, and fails requests until [Server.Start].
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isDown = true
	for _, resource := range slices.Sorted(maps.Keys(s.caches)) {
		s.caches[resource].tell()
	}
}

// Start starts a stopped server, with an empty watch cache.
func (s *Server) Start() {
	version := s.store.Version()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isDown = false
	for _, cache := range s.caches {
		cache.seen = version
	}
	s.run++
}

// IsDown reports whether the server does not run.
func (s *Server) IsDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isDown
}

// SetAway ends all watches of a resource, and fails requests for it, until it is called with false.
func (s *Server) SetAway(resource string, isAway bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches[resource].isAway = isAway
	s.caches[resource].tell()
}

// Refuse makes the server refuse new claims in a namespace, as another admission webhook might, until it is called with
// false.
func (s *Server) Refuse(namespace string, refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing[namespace] = refuses
}

func (s *Server) refuses(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusing[namespace]
}

// isAway reports whether nobody serves a resource.
func (s *Server) isAway(resource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caches[resource].isAway
}

func (c *watchCache) tell() {
	close(c.news)
	c.news = make(chan struct{})
}

// expect makes the server see a version of a resource after a while.
func (s *Server) expect(resource string, version int64) {
	if s.caches[resource] != nil {
		time.AfterFunc(s.lag.Lag(), func() { s.see(resource, version) })
	}
}

// see makes the server see a version of a resource.
func (s *Server) see(resource string, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cache := s.caches[resource]; version > cache.seen {
		cache.seen = version
		cache.tell()
	}
}

// seen returns the version of a resource that the server has seen.
func (s *Server) seen(resource string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caches[resource].seen
}

// progress makes the server see that nothing has happened to a resource since the latest version that it has seen.
func (s *Server) progress(resource string) {
	next := s.seen(resource)
	s.store.mu.Lock()
	for next < int64(len(s.store.revisions)) && s.store.revisions[next].Resource != resource {
		next++
	}
	s.store.mu.Unlock()
	s.see(resource, next)
}

// kinds are the kinds of the served resources.
var kinds = map[string]metav1.TypeMeta{
	"configmaps":            {APIVersion: "v1", Kind: "ConfigMap"},
	"namespaces":            {APIVersion: "v1", Kind: "Namespace"},
	"resourceclaims":        {APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
	"consumerledgers":       {APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ConsumerLedger"},
	"claimcreationpolicies": {APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ClaimCreationPolicy"},
	"resourceregistrations": {APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceRegistration"},
}

// request is a request to the API server.
type request struct {
	Key
	*http.Request
	subresource string
	body        []byte
	onlyMeta    bool
	isGranted   bool // in the version for creating claims with their status
}

func parse(r *http.Request, body []byte) *request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	result := &request{Request: r, body: body, onlyMeta: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		result.isGranted = parts[2] == quotav1alpha1.GrantedVersion
		parts = parts[3:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		result.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	result.Resource, result.Name, result.subresource = parts[0], parts[1], parts[2]
	return result
}

// serve answers a request other than a watch.
func (s *Server) serve(r *request) *http.Response {
	if _, isServed := kinds[r.Resource]; !isServed {
		return failed(&errorOf{404, metav1.StatusReasonNotFound, r.Resource})
	}
	if s.isAway(r.Resource) {
		return failed(errAway)
	}
	if r.Method == http.MethodGet && r.Name == "" {
		return s.list(r)
	}
	stored, err := s.serveObject(r)
	if err != nil {
		return failed(err)
	}
	if r.onlyMeta {
		return answered(http.StatusOK, stored.metadata())
	}
	return answered(http.StatusOK, stored.Object)
}

func (s *Server) serveObject(r *request) (*Revision, error) {
	switch r.Method {
	case http.MethodGet:
		if stored := s.store.get(r.Key); stored != nil {
			return stored, nil
		}
		return nil, &errorOf{404, metav1.StatusReasonNotFound, r.Name}
	case http.MethodPost:
		return s.createObject(r)
	case http.MethodDelete:
		return s.deleteObject(r)
	default:
		return s.store.change(r.Key, func(stored map[string]any) (map[string]any, error) { return changed(r, stored) })
	}
}

func (s *Server) createObject(r *request) (*Revision, error) {
	content := decode(r.body)
	object, kind := unstructured.Unstructured{Object: content}, kinds[r.Resource]
	object.SetAPIVersion(kind.APIVersion)
	object.SetKind(kind.Kind)
	r.Name = object.GetName()
	if r.Resource == "resourceclaims" && s.refuses(r.Namespace) {
		return nil, &errorOf{403, metav1.StatusReasonForbidden, r.Name}
	}
	if r.Resource == "resourceclaims" && !r.isGranted {
		delete(content, "status")
	}
	return s.store.create(r.Key, content)
}

// changed returns an object after a request to change it.
func changed(r *request, stored map[string]any) (map[string]any, error) {
	before := unstructured.Unstructured{Object: stored}
	body := r.body
	if r.Method == http.MethodPatch {
		var err error
		if body, err = jsonpatch.MergePatch(encode(stored), body); err != nil {
			return nil, &errorOf{400, metav1.StatusReasonBadRequest, r.Name}
		}
	}
	after := unstructured.Unstructured{Object: decode(body)}
	if version := after.GetResourceVersion(); version != "" && version != before.GetResourceVersion() {
		return nil, errConflict
	}
	if uid := after.GetUID(); uid != "" && uid != before.GetUID() {
		return nil, errConflict
	}
	if r.subresource == "status" {
		stored["status"] = after.Object["status"]
		return stored, nil
	}
	meta := before.Object["metadata"].(map[string]any)
	changed := maps.Clone(after.Object["metadata"].(map[string]any))
	for _, field := range []string{"uid", "creationTimestamp", "generation", "deletionTimestamp", "namespace", "name"} {
		if meta[field] != nil {
			changed[field] = meta[field]
		} else {
			delete(changed, field)
		}
	}
	after.Object["metadata"] = changed
	after.SetAPIVersion(kinds[r.Resource].APIVersion)
	after.SetKind(kinds[r.Resource].Kind)
	if r.Resource == "resourceclaims" {
		after.Object["status"] = stored["status"]
	}
	if !equality.Semantic.DeepEqual(after.Object["spec"], stored["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	return after.Object, nil
}

func (s *Server) deleteObject(r *request) (*Revision, error) {
	var options metav1.DeleteOptions
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &options); err != nil {
			return nil, &errorOf{400, metav1.StatusReasonBadRequest, r.Name}
		}
	}
	return s.store.change(r.Key, func(stored map[string]any) (map[string]any, error) {
		object := unstructured.Unstructured{Object: stored}
		if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != object.GetUID() ||
			p.ResourceVersion != nil && *p.ResourceVersion != object.GetResourceVersion()) {
			return nil, errConflict
		}
		if object.GetDeletionTimestamp() == nil {
			object.SetDeletionTimestamp(new(metav1.Now()))
		}
		return stored, nil
	})
}

func answered(code int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func failed(err error) *http.Response {
	var known *errorOf
	if !errors.As(err, &known) {
		known = &errorOf{500, metav1.StatusReasonInternalError, ""}
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: known.code, Reason: known.reason,
		Message: err.Error(), Details: &metav1.StatusDetails{Name: known.name},
	}
	return answered(int(known.code), encode(status))
}
