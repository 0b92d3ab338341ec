// Package enforce is the validating webhook on the kinds that policies protect. For each
// object that is about to be created it finds the policies that apply, renders their claims,
// and reserves what they ask for in the consumers' ledgers. Only when every claim of a policy that
// enforces is reserved may the object be created. Policies that do not enforce let the object pass,
// charge it all the same, and say that it exceeds its quota.
//
// A change of an object that costs more by it is decided on the difference. What becomes less, and
// what the claim says, follows when the change is seen (package lifecycle).
//
// The claims themselves are written after the object has appeared (package lifecycle): until
// then the reservation holds everything that is needed to make the claim. So a create that
// fails after admission costs no more than a reservation, which expires.
package enforce

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/reviewed"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

const (
	// forwardedTimeout is how long a replica may lag behind that has been sent a review.
	forwardedTimeout = 500 * time.Millisecond
	// recreateTimeout is how long a refused create waits for an earlier object of its name.
	recreateTimeout = time.Second
)

// Dependencies are what a handler works with.
type Dependencies struct {
	Catalog   *catalog.Catalog
	Evaluator *evaluator.Evaluator
	Store     *ledgerstore.Store
	Objects   *objectcache.Cache
	// Claims name who holds most in denials. Default: denials name nobody.
	Claims *claimcache.Cache
	// Engine reserves what updates need, and has the claims follow.
	Engine *engine.Engine
	// Reviewed remembers what was decided.
	Reviewed *reviewed.Objects
	// Kinds and Live are for reading the objects that requests on the scale subresource change.
	Kinds Kinds
	Live  dynamic.Interface
	// Events receives what policies in the mode Audit have to say. Default: no events.
	Events events.EventRecorder
	// Evaluations, if set, records whether policies could be applied to objects.
	Evaluations Evaluations
	// Denials, if set, records denials.
	Denials Denials
	// Permissions, if set, limits what denials say to what their reader may read. Otherwise everybody may read everything.
	Permissions Permissions
	// Consumers, if set, finds out which consumers exist.
	Consumers Consumers
	// MaxObjectBytes is the size of the largest object that the API server's etcd stores. Default: etcd's own.
	MaxObjectBytes int
	// Log receives who broke the glass. Default: nothing is logged.
	Log logr.Logger
	// Ready is closed once everything that decisions depend on is loaded.
	Ready <-chan struct{}
	// Replicas decide reviews whose ledgers they keep.
	Replicas Replicas
	// Policies is the gate to the policies of a version.
	Policies Gate
}

// Denials records denials where those read them whose quota is short.
type Denials interface {
	// RecordDenial records a denial for lack of a resource type in the namespace that shows the quota of the consumer.
	RecordDenial(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType, note string)
}

// Permissions asks the API server what users may do.
type Permissions interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// Consumers asks the API server about consumers.
type Consumers interface {
	ConsumerExists(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (bool, error)
}

// Replicas are the other replicas.
type Replicas interface {
	// Forward sends a review, as it came to a path, to the replica that keeps the ledger of a consumer, and returns
	// its answer, or false if it has to be decided here.
	Forward(ctx context.Context, consumer quotav1alpha1.ConsumerRef, path string, review []byte) ([]byte, bool)
}

// Gate waits until the catalog has what was declared by a version, or returns an error.
type Gate interface {
	Wait(ctx context.Context, version catalog.Version) error
}

// Evaluations records whether policies can be applied to the objects of requests.
type Evaluations interface {
	Failed(p *catalog.Policy, object evaluator.Object, err error, isDenied bool)
	Succeeded(p *catalog.Policy)
}

// Handler answers the reviews of creates of protected objects, and of updates where a policy follows
// them.
type Handler struct {
	Dependencies
	admitted admittedObjects
	deciding deciding
	replaced replaced
	cached   *cache.Expiring // permissions of users, holders, and missing consumers
	metrics  metrics
}

// New returns a handler.
func New(deps Dependencies) *Handler {
	deps.MaxObjectBytes = cmp.Or(deps.MaxObjectBytes, defaultMaxObjectBytes)
	lifetime := deps.Store.ReservationLifetime
	return &Handler{
		Dependencies: deps, cached: cache.NewExpiring(), metrics: newMetrics(),
		admitted: admittedObjects{lifetime: lifetime}, replaced: replaced{lifetime: AdmittedRetention(lifetime)},
	}
}

// ServeHTTP implements [http.Handler]. A version of what was declared may follow the path.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, func(_ *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) *admissionv1.AdmissionResponse {
		return answer
	})
}

// Advise answers for kinds of which no policy enforces: whatever comes of a review, the request
// passes. What could not be decided is looked at again once the object is there, or has changed.
func (h *Handler) Advise() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, func(request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) *admissionv1.AdmissionResponse {
			if answer.Allowed {
				return answer
			}
			h.Log.V(1).Info("let pass what could not be decided", "kind", request.Kind.Kind, "namespace", request.Namespace,
				"name", request.Name, "why", answer.Result.Message)
			if !review.IsDryRun(request) {
				h.expectUndecided(request)
			}
			return review.Allowed()
		})
	})
}

// serve decides a request, and writes what becomes of the answer.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, finish func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) *admissionv1.AdmissionResponse) {
	version, err := catalog.ParseVersion(r.PathValue("version"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), review.Timeout(r))
	defer cancel()
	if routing.IsForwarded(r) {
		h.serveForwarded(ctx, w, r, version)
		return
	}
	review.Serve(w, r, func(request *admissionv1.AdmissionRequest, body []byte) *admissionv1.AdmissionResponse {
		began := time.Now()
		answer := h.answer(ctx, version, request, func(consumer quotav1alpha1.ConsumerRef) *admissionv1.AdmissionResponse {
			return h.forward(ctx, consumer, r.URL.Path, body)
		})
		h.metrics.reviewed(answer, time.Since(began))
		return finish(request, answer)
	})
}

// serveForwarded decides a request that another replica has sent, and which does with the answer what is to be
// done with it. It had better decide itself what this one cannot because it lags behind.
func (h *Handler) serveForwarded(ctx context.Context, w http.ResponseWriter, r *http.Request, version catalog.Version) {
	waiting, cancel := context.WithTimeout(ctx, forwardedTimeout)
	defer cancel()
	err := h.waitReady(waiting)
	if err == nil {
		err = h.Policies.Wait(waiting, version)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	review.Serve(w, r, func(request *admissionv1.AdmissionRequest, _ []byte) *admissionv1.AdmissionResponse {
		return h.answer(ctx, version, request, decideHere)
	})
}

// answer decides one request.
func (h *Handler) answer(ctx context.Context, version catalog.Version, request *admissionv1.AdmissionRequest, forward forwardFunc) *admissionv1.AdmissionResponse {
	if err := h.waitReady(ctx); err != nil {
		return undecided(err)
	}
	if err := h.Policies.Wait(ctx, version); err != nil {
		return undecided(err)
	}
	switch request.Operation {
	case admissionv1.Create:
		return h.create(ctx, request, forward)
	case admissionv1.Update:
		return h.update(ctx, request, forward)
	default:
		return review.Denied(http.StatusBadRequest, metav1.StatusReasonBadRequest, "this webhook does not know the operation %q; correct the webhook configuration", request.Operation)
	}
}

func (h *Handler) waitReady(ctx context.Context) error {
	select {
	case <-h.Ready:
		return nil
	case <-ctx.Done():
		return errors.New("the policies are still being loaded")
	}
}
