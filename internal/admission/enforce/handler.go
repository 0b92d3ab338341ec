// Package enforce is the validating webhook on the kinds that policies protect. For each
// object that is about to be created it finds the policies that apply, renders their claims,
// and reserves what they ask for in the consumers' ledgers. Only when every claim is reserved
// may the object be created.
//
// The claims themselves are written after the object has appeared (package lifecycle): until
// then the reservation holds everything that is needed to make the claim. So a create that
// fails after admission costs no more than a reservation, which expires.
package enforce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/protected"
)

const (
	// reviewBytesMax bounds a review: an object of the API server's own limit of 3 MiB, in which
	// every character may be escaped by six, and room for what comes around it.
	reviewBytesMax = 6*(3<<20) + 6<<20
	// answerTime is kept back from the API server's timeout, so that a late decision still
	// reaches the user as a sentence and not as a failed call.
	answerTime = 500 * time.Millisecond
	// recreatePatience is how long a refused create waits for an earlier object of its name.
	recreatePatience = time.Second
	// timeoutDefault applies when the API server does not say how long it waits.
	timeoutDefault = 5 * time.Second
)

// Namespaces looks namespaces up.
type Namespaces interface {
	// Active tells whether a namespace exists and is not being deleted.
	Active(ctx context.Context, name string) (bool, error)
	// Object returns the metadata of a namespace as policies see it.
	Object(ctx context.Context, name string) (map[string]any, error)
}

// Parts are what a handler works with.
type Parts struct {
	Catalog    *catalog.Catalog
	Store      *ledgerstore.Store
	Objects    *protected.Objects
	Namespaces Namespaces
	// SystemNamespace is where claims for cluster-scoped objects go unless their template says otherwise.
	SystemNamespace string
	// Ready is closed once everything that decisions depend on is loaded.
	Ready <-chan struct{}
}

// Handler answers the reviews of protected creates.
type Handler struct {
	Parts
	admitted admitted
	metrics  metrics
}

// New returns a handler.
func New(parts Parts) *Handler { return &Handler{Parts: parts, metrics: newMetrics()} }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, reviewBytesMax))
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("not an AdmissionReview with a request: %v", err), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(r))
	defer cancel()
	began := time.Now()
	answer := h.answer(ctx, review.Request)
	h.metrics.reviewed(answer, time.Since(began))
	answer.UID = review.Request.UID
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone is no error of ours.
	_ = json.NewEncoder(w).Encode(&review)
}

func timeoutOf(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		timeout = timeoutDefault
	}
	if timeout > 2*answerTime {
		timeout -= answerTime
	}
	return timeout
}

// answer decides one create.
func (h *Handler) answer(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if err := h.waitReady(ctx); err != nil {
		return undecided(err)
	}
	create, refusal := h.plan(ctx, request)
	if refusal != nil {
		return refusal
	}
	if create == nil {
		return allowed()
	}
	if exists, err := h.nameTaken(ctx, create); err != nil {
		return undecided(err)
	} else if exists {
		return alreadyExists(request, create.name.Name)
	}
	if request.DryRun != nil && *request.DryRun {
		return h.check(ctx, create)
	}
	return h.admit(ctx, request, create)
}

// admit reserves for the object. If that is refused while an object that was admitted under the
// same name has not been seen yet, that one may be gone already: once it was seen, its charge is
// known to come back, and the answer may be another.
func (h *Handler) admit(ctx context.Context, request *admissionv1.AdmissionRequest, c *create) *admissionv1.AdmissionResponse {
	response := h.reserve(ctx, c)
	if response.Allowed || !h.admitted.waitSeen(ctx, objectName{c.kind.GroupKind(), c.name}, recreatePatience) {
		return response
	}
	if exists, err := h.nameTaken(ctx, c); err != nil {
		return undecided(err)
	} else if exists {
		return alreadyExists(request, c.name.Name)
	}
	return h.reserve(ctx, c)
}

func (h *Handler) waitReady(ctx context.Context) error {
	select {
	case <-h.Ready:
		return nil
	case <-ctx.Done():
		return errors.New("the policies are still being loaded")
	}
}

// create is one object that is about to be created, and the claims that policies make for it.
type create struct {
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
	name     types.NamespacedName
	uid      types.UID
	claims   []*plannedClaim
}

// plan finds out which claims the object needs. It returns nil if it needs none.
func (h *Handler) plan(ctx context.Context, request *admissionv1.AdmissionRequest) (*create, *admissionv1.AdmissionResponse) {
	kind := schema.GroupVersionKind(request.Kind)
	policies := h.Catalog.Policies(kind)
	if len(policies) == 0 {
		return nil, nil
	}
	var object map[string]any
	if err := utiljson.Unmarshal(request.Object.Raw, &object); err != nil {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the object cannot be read: %v", err)
	}
	input := inputOf(request, object)
	if request.Namespace != "" && slices.ContainsFunc(policies, func(p *catalog.Policy) bool { return p.UsesNamespace() }) {
		var err error
		if input.NamespaceObject, err = h.Namespaces.Object(ctx, request.Namespace); err != nil {
			return nil, undecided(err)
		}
	}
	c := &create{
		kind:     kind,
		resource: schema.GroupVersionResource(request.Resource),
		name:     nameOf(request, object),
		uid:      uidOf(object),
	}
	if c.uid == "" {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the object has no UID; quota is decided in the validating phase of a create")
	}
	for _, p := range policies {
		planned, err := h.planClaim(ctx, c, p, input)
		if err != nil {
			return nil, undecidable(p.Name, err)
		}
		if planned != nil {
			c.claims = append(c.claims, planned)
		}
	}
	if len(c.claims) == 0 {
		return nil, nil
	}
	return c, nil
}
