// Package enforce is the validating webhook for the kinds under policies.
//
// For a create, it evaluates the applicable policies, renders their claims, and reserves their charges in the ledgers
// of the consumers. It admits the object only after every claim of an enforcing policy has a reservation, or fits
// into quota reserved ahead of demand by this replica. Other policies charge the object beyond the limit if
// necessary, and warn of the excess.
//
// For an update with a higher demand, it reserves the difference. Package engine releases a decrease once it sees the
// change.
//
// Package engine writes the claims after the object has appeared. Until then the reservation contains everything
// needed to create the claim. A create that fails after admission therefore costs only a reservation with an expiry.
//
// Package message has the text of denials. Only the composition in package operator imports this package.
package enforce

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

const (
	// forwardedTimeout bounds how long a replica waits for its own caches before it decides a forwarded review.
	forwardedTimeout = 500 * time.Millisecond
	// recreateTimeout bounds how long a denied create waits for an earlier object of the same name.
	recreateTimeout = time.Second
)

// Dependencies are the dependencies of a handler.
type Dependencies struct {
	Catalog   *catalog.Catalog
	Evaluator *evaluator.Evaluator
	Store     *ledgerstore.Store
	Objects   *objectcache.Cache
	// Claims name the largest holders in denials. Default: denials name no holders.
	Claims *claimcache.Cache
	// Inventory names the largest objects that count in denials. Default: denials name none.
	Inventory *inventory.Inventory
	// Engine learns of admitted requests, and how they end.
	Engine *engine.Engine
	// Kinds and Live read the objects behind requests on the scale subresource.
	Kinds Kinds
	Live  dynamic.Interface
	// Events receives the notices of policies in the mode Audit. Default: no events.
	Events events.EventRecorder
	// Evaluations, if set, records whether policies were applicable to objects.
	Evaluations Evaluations
	// Denials, if set, records denials.
	Denials Denials
	// Permissions, if set, limits denials to the figures that the user may read. Otherwise every user may read
	// everything.
	Permissions Permissions
	// Consumers, if set, looks up whether consumers exist.
	Consumers Consumers
	// MaxObjectBytes is the size of the largest object that the API server's etcd stores. Default: etcd's own limit.
	MaxObjectBytes int
	// Log receives break-glass requests. Default: nothing is logged.
	Log logr.Logger
	// Ready is closed once the handler has all dependencies of a decision.
	Ready <-chan struct{}
	// Replicas decide reviews of their own consumers, as their preferred replicas.
	Replicas Replicas
	// Policies waits until the catalog contains the policies of a version.
	Policies Gate
}

// Denials records denials in the namespaces of the affected consumers.
type Denials interface {
	// RecordDenial records a denial for lack of a resource type, in the namespace of the consumer's quota objects.
	RecordDenial(consumer quotav1alpha1.ConsumerRef, resourceType, note string)
}

// Permissions asks the API server for the permissions of users.
type Permissions interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// Consumers asks the API server about consumers.
type Consumers interface {
	ConsumerExists(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (bool, error)
}

// Replicas are the other replicas.
type Replicas interface {
	// Forward sends a review, as it came to a path, to the preferred replica of a consumer. It returns the answer, or
	// false if this replica has to decide.
	Forward(ctx context.Context, consumer quotav1alpha1.ConsumerRef, path string, review []byte) ([]byte, bool)
	// ForwardToAny sends a review to the other replicas in turn. It returns the first answer, or false if none decides.
	ForwardToAny(ctx context.Context, path string, review []byte) ([]byte, bool)
}

// Gate waits until the catalog contains all objects declared by a version, or returns an error.
type Gate interface {
	Wait(ctx context.Context, version catalog.Version) error
}

// Evaluations records whether policies are applicable to the objects of requests.
type Evaluations interface {
	Failed(p *catalog.Policy, object evaluator.Object, err error, isDenied bool)
	Succeeded(p *catalog.Policy)
}

// Handler answers the reviews of creates of protected objects. It also answers the reviews of updates if a policy
// follows updates.
type Handler struct {
	Dependencies
	admitted    admittedObjects
	unconfirmed unconfirmed
	looks       looks
	deciding    deciding
	replaced    replaced
	cached      *cache.Expiring    // permissions of users, holders, and missing consumers
	looking     singleflight.Group // at holders, by the key in cached
	intents     *lru.Cache         // the kinds of decoded intents
	metrics     metrics
}

// New returns a handler.
func New(deps Dependencies) *Handler {
	deps.MaxObjectBytes = cmp.Or(deps.MaxObjectBytes, defaultMaxObjectBytes)
	lifetime := deps.Store.ReservationLifetime
	return &Handler{
		Dependencies: deps, cached: cache.NewExpiring(), intents: lru.New(intentsMax), metrics: newMetrics(),
		admitted: admittedObjects{lifetime: lifetime}, unconfirmed: unconfirmed{lifetime: lifetime}, replaced: replaced{lifetime: lifetime + admittedMargin},
	}
}

// ServeHTTP implements [http.Handler]. A catalog version may follow the path.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, func(_ *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) *admissionv1.AdmissionResponse {
		return answer
	})
}

// Advise returns a handler for kinds without an enforcing policy: it admits every request. An
// undecided object counts all the same once it exists, unless its claim would be of record.
func (h *Handler) Advise() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, func(request *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) *admissionv1.AdmissionResponse {
			if answer.Allowed {
				return answer
			}
			h.Log.V(1).Info("admitted a request without a decision", "kind", request.Kind.Kind, "namespace", request.Namespace,
				"name", request.Name, "why", answer.Result.Message)
			return review.Allowed()
		})
	})
}

// serve decides a request and passes the answer through finish.
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
		if answer == nil {
			answer = h.answerElsewhere(ctx, request, r.URL.Path, body)
		}
		h.metrics.reviewed(answer, time.Since(began))
		return finish(request, answer)
	})
}

// serveForwarded decides a request from another replica. The sender finishes the answer. If this replica lags behind,
// or does not know a policy, it returns an error, and the sender decides itself or asks the next one.
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

// answer decides one request. It returns nil if another replica may have a policy in effect that this one has not.
func (h *Handler) answer(ctx context.Context, version catalog.Version, request *admissionv1.AdmissionRequest, forward forwardFunc) *admissionv1.AdmissionResponse {
	if isPlanned(request) {
		return review.Allowed()
	}
	if err := h.waitReady(ctx); err != nil {
		return tryAgain(err)
	}
	if err := h.Policies.Wait(ctx, version); err != nil {
		return tryAgain(err)
	}
	if h.waitDecidable(ctx, request) != "" {
		return nil
	}
	switch request.Operation {
	case admissionv1.Create:
		return h.create(ctx, request, forward)
	case admissionv1.Update:
		return h.update(ctx, request, forward)
	default:
		return review.Invalid("this webhook does not know the operation %q; correct the webhook configuration", request.Operation)
	}
}

// isPlanned reports whether a request only asks for the object that the API server would store: a dry run by
// [quotav1alpha1.FieldManagerPlan].
func isPlanned(request *admissionv1.AdmissionRequest) bool {
	if !review.IsDryRun(request) {
		return false
	}
	var options metav1.PatchOptions // those of all operations have a field manager
	return json.Unmarshal(request.Options.Raw, &options) == nil && options.FieldManager == quotav1alpha1.FieldManagerPlan
}

func (h *Handler) waitReady(ctx context.Context) error {
	select {
	case <-h.Ready:
		return nil
	case <-ctx.Done():
		return errors.New("the policies are still being loaded")
	}
}
