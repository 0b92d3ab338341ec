// Package resourcequota is the validating webhook for the ResourceQuotas of Kubernetes.
//
// It records a new or raised ResourceQuota in every ResourceQuotaAllocation that counts it and selects its namespace.
// It denies the request if one of them has not enough room. It denies the removal of a capped resource from a
// ResourceQuota, and the deletion of the ResourceQuota, unless the user may update the allocation. All other changes
// pass at once.
//
// Only the composition in package operator imports this package.
package resourcequota

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocation/allocationstore"
	"github.com/bursar/bursar/internal/catalog"
)

// rollbackTimeout bounds the rollback in the other allocations when one falls short, so the answer is still in time.
// Later, the remaining changes expire once they are no longer pending, see [allocationstore.PendingMargin].
const rollbackTimeout = 500 * time.Millisecond

// AllocationLedgers are the ledgers of all allocations.
type AllocationLedgers interface {
	Admit(ctx context.Context, name string, request allocationstore.Request) (allocationstore.Outcome, error)
	Cancel(ctx context.Context, name, id string) error
}

// Namespaces looks up namespaces.
type Namespaces interface {
	// Get returns the current metadata of a namespace, or nil if the namespace does not exist.
	Get(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error)
}

// Permissions looks up the permissions of users.
type Permissions interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// Gate waits until the catalog contains the allocations of a version, or returns an error.
type Gate interface {
	Wait(ctx context.Context, version catalog.Digest) error
}

// Dependencies are the dependencies of a handler.
type Dependencies struct {
	Catalog *catalog.Catalog
	Ledgers AllocationLedgers
	// Namespaces reads from the API server, without a cache.
	Namespaces  Namespaces
	Permissions Permissions
	// Username is the name of Bursar's own user.
	Username string
	// Ready is closed once the catalog is complete.
	Ready <-chan struct{}
	// Declared waits for the allocations of a version.
	Declared Gate
	Log      logr.Logger
}

// Handler answers the reviews of ResourceQuotas.
type Handler struct {
	Dependencies
	metrics metrics
}

// New returns a handler.
func New(deps Dependencies) *Handler { return &Handler{Dependencies: deps, metrics: newMetrics()} }

// ServeHTTP implements [http.Handler]. The path ends with the version of the allocations at the publication of the
// webhook.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version, err := catalog.ParseDigest(r.PathValue("version"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), review.Timeout(r))
	defer cancel()
	review.Serve(w, r, func(request *admissionv1.AdmissionRequest, _ []byte) *admissionv1.AdmissionResponse {
		began := time.Now()
		answer := h.answer(ctx, version, request)
		h.metrics.reviewed(answer, time.Since(began))
		return answer
	})
}

func (h *Handler) answer(ctx context.Context, version catalog.Digest, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	change, err := read(request)
	if err != nil {
		return review.Invalid("%v", err)
	}
	raised, dropped := change.raised(), change.dropped()
	if len(raised) == 0 && len(dropped) == 0 {
		return review.Allowed()
	}

	select {
	case <-h.Ready:
	case <-ctx.Done():
		return undecided(errors.New("the allocations are still being loaded"))
	}
	if err := h.Declared.Wait(ctx, version); err != nil {
		return undecided(err)
	}

	namespace, err := h.Namespaces.Get(ctx, change.to.Namespace)
	if err != nil {
		return undecided(err)
	}
	if namespace == nil {
		return review.Allowed() // the API server rejects it
	}

	if denial := h.checkDropped(ctx, request, change, dropped, namespace); denial != nil {
		return denial
	}
	if len(raised) == 0 {
		return review.Allowed()
	}
	demands := h.demandsOf(change, raised, namespace)
	if len(demands) == 0 {
		return review.Allowed()
	}
	return h.admit(ctx, request, demands)
}

// change is the effect of a request on a ResourceQuota. from is empty for a create, and to is empty for a deletion.
type change struct{ from, to corev1.ResourceQuota }

// read decodes the change in a request.
func read(request *admissionv1.AdmissionRequest) (change, error) {
	var c change
	switch request.Operation {
	case admissionv1.Update:
		if err := json.Unmarshal(request.OldObject.Raw, &c.from); err != nil {
			return c, fmt.Errorf("the old ResourceQuota cannot be read: %w", err)
		}
	case admissionv1.Create:
	case admissionv1.Delete:
		if err := json.Unmarshal(request.OldObject.Raw, &c.from); err != nil {
			return c, fmt.Errorf("the old ResourceQuota cannot be read: %w", err)
		}
		c.to.Namespace, c.to.Name = request.Namespace, request.Name
		return c, nil
	default:
		return c, fmt.Errorf("this webhook does not know the operation %q; correct the webhook configuration", request.Operation)
	}

	if err := json.Unmarshal(request.Object.Raw, &c.to); err != nil {
		return c, fmt.Errorf("the ResourceQuota cannot be read: %w", err)
	}
	c.to.Namespace = cmp.Or(c.to.Namespace, request.Namespace)
	c.to.Name = cmp.Or(c.to.Name, request.Name)
	if c.to.UID == "" {
		return c, errors.New("the ResourceQuota has no UID: Bursar decides on it in the validating phase of a request")
	}
	return c, nil
}

// raised returns the raised amounts, under every name of their resources. If the scopes change, all amounts under the
// new scopes count as raised.
func (c *change) raised() corev1.ResourceList {
	raised := corev1.ResourceList{}
	before := allocation.Limits(c.from.Spec.Hard)
	if allocation.ScopesOf(&c.from.Spec) != allocation.ScopesOf(&c.to.Spec) {
		before = nil
	}
	for name, amount := range allocation.Limits(c.to.Spec.Hard) {
		if amount.Cmp(before[name]) > 0 {
			raised[name] = amount
		}
	}
	return raised
}

// demand is the demand on one allocation.
type demand struct {
	allocation string
	request    allocationstore.Request
}

// demandsOf returns the demands of a change on each allocation. They are in the order of the allocations' names. Every
// replica records changes in this order.
func (h *Handler) demandsOf(c change, raised corev1.ResourceList, namespace *metav1.PartialObjectMetadata) []demand {
	scopes := allocation.ScopesOf(&c.to.Spec)
	raise := allocation.QuotaChange{
		ID: rand.Text(), Namespace: c.to.Namespace, Name: c.to.Name, UID: c.to.UID,
		ResourceVersion: c.from.ResourceVersion, NamespaceVersion: namespace.ResourceVersion, Hard: raised, AdmittedAt: metav1.Now(),
	}
	var all []demand
	set := labels.Set{}
	maps.Copy(set, namespace.Labels)
	for _, a := range h.Catalog.AllocationsFor(set) {
		if a.Scopes == scopes {
			all = append(all, demand{a.Name, allocationstore.Request{QuotaChange: raise, Labels: set, Scopes: scopes}})
		}
	}
	return all
}

// admit records a change in all allocations or in none.
func (h *Handler) admit(ctx context.Context, request *admissionv1.AdmissionRequest, demands []demand) *admissionv1.AdmissionResponse {
	isDryRun := review.IsDryRun(request)
	var recorded []string
	var denials []denial
	for _, a := range demands {
		// After the first denial, the other allocations only check the change, so the user learns of all shortages at once.
		a.request.IsDryRun = isDryRun || len(denials) > 0
		outcome, err := h.Ledgers.Admit(ctx, a.allocation, a.request)
		if err != nil {
			h.rollback(append(recorded, a.allocation), a.request.ID) // the ledger may have recorded the change in spite of the error
			return undecided(err)
		}
		if outcome.IsPending {
			recorded = append(recorded, a.allocation)
		}
		for i, shortage := range outcome.Shortages {
			denials = append(denials, denial{a.allocation, a.request.Namespace, a.request.Scopes, shortage, outcome.Holders[i]})
		}
	}
	if len(denials) > 0 {
		h.rollback(recorded, demands[0].request.ID)
		return h.deny(ctx, request, denials)
	}
	return review.Allowed()
}

// rollback removes a failed change from the ledgers of allocations.
func (h *Handler) rollback(allocations []string, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	for _, name := range allocations {
		if err := h.Ledgers.Cancel(ctx, name, id); err != nil && !errors.Is(err, allocationstore.ErrGone) {
			h.Log.Error(err, "the ledger still has a denied change, which expires later", "allocation", name)
		}
	}
}

func undecided(err error) *admissionv1.AdmissionResponse {
	return review.Undecided(err, errors.Is(err, allocationstore.ErrBusy))
}
