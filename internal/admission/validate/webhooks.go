// Package validate is the webhooks for Bursar's own kinds, of the groups quota.miloapis.com and openmcp.cloud, and
// for the deletion of its system namespace.
//
// Each kind has one pure function ([Registration], [Grant], [Claim], ...) to validate every create and update. It
// returns all errors at once, each with the path of its field. It validates only the changed parts of an update, so
// users can still maintain and delete an object older than a rule.
//
// Only Bursar may make buckets and effective grants, write ledgers and any status, mark claims and grants as a
// policy's, and delete a claim while its object exists. A deleted registration stays while policies or grants rely on
// it, and accepts no new uses. An object may still become valid by itself, such as a grant for an unregistered type.
// Validation accepts it with a warning.
//
// Mutation adds the finalizer to claims, so no claim disappears while its charge is in the ledger, and the labels of
// their consumer. It gives the consumer kind of a registration both of its names.
//
// The composition in package operator imports this package, and adds the lookups for validation.
package validate

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/config"
)

// Webhooks answers the reviews of Bursar's own kinds. Set its fields once, before use. It is then safe for concurrent
// use, if they are.
type Webhooks struct {
	// Username is the user name of Bursar itself.
	Username string
	// SystemNamespace is the namespace protected against deletion.
	SystemNamespace string
	// Registrations reads the stored registrations, and Catalog has the declared ones.
	Registrations Registrations
	Catalog       Catalog
	// Claims has the known claims, and Engine looks up the need for them.
	Claims Claims
	Engine Engine
	// Counted has the objects that count without claims.
	Counted Counted
	// GrantPolicies are the GrantCreationPolicies.
	GrantPolicies GrantPolicies
	// Previewer evaluates policies on existing objects, and Advice warns of unexpected effects of a write.
	Previewer        Previewer
	Advice           Advice
	Permissions      Permissions
	QuotaSpecs       QuotaSpecs
	MemberNamespaces MemberNamespaces
	Namespaces       Namespaces
	Requests         Requests
	// Deletions, if set, learns of the deletions of grants.
	Deletions Deletions
	// ConsumerThresholds are the bounds of the thresholds that consumers set for themselves.
	ConsumerThresholds config.ConsumerThresholds
	// Clock is the API server's clock.
	Clock Clock
}

// Registrations answers from stored objects. It need not see creates in flight.
type Registrations interface {
	// RegisteredBy names the registration of a resource type, or is empty.
	RegisteredBy(ctx context.Context, resourceType string) (string, error)
	// InUse returns the users of a registration, and the steps to release it, or "".
	InUse(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (string, error)
	// AmountsOf names an object with an amount of a resource type, or is empty.
	AmountsOf(ctx context.Context, resourceType string) (string, error)
}

// Catalog checks objects against the declared registrations. A check returns nil or the reason why it fails.
type Catalog interface {
	// Registration returns the active registration of a resource type, or nil.
	Registration(resourceType string) *catalog.Registration
	// CheckNew returns an error unless all of these resource types accept new uses.
	CheckNew(resourceTypes ...string) error
	// CheckGrant returns an error unless the grant is going to be active.
	CheckGrant(spec *quotav1alpha1.ResourceGrantSpec) error
	// ConsumerNamespace returns the namespace of a consumer's effective grants.
	ConsumerNamespace(consumer quotav1alpha1.ConsumerRef) string
	// CheckClaim returns an error unless a decision about the claim is possible.
	CheckClaim(spec *quotav1alpha1.ResourceClaimSpec) error
	// CheckPolicy returns an error unless the registrations allow the requests of a policy's claims.
	CheckPolicy(policy *quotav1alpha1.ClaimCreationPolicy) error
	// CheckClaiming returns an error unless the kind of a policy may claim its requests.
	CheckClaiming(policy *quotav1alpha1.ClaimCreationPolicy) error
}

// Claims are the known claims.
type Claims interface {
	// CountOf returns the number of claims with the label of a policy.
	CountOf(policy string) int
}

// Engine looks up the need for claims.
type Engine interface {
	// InUse reports whether the object of a claim exists right now.
	InUse(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error)
}

// GrantPolicies are the GrantCreationPolicies.
type GrantPolicies interface {
	// Check returns the reason why a policy is not going to be effective, or nil.
	Check(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) error
	// GrantsOf returns the number of existing grants of a policy in this control plane.
	GrantsOf(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) (int, error)
}

// Previewer returns warnings about the effects of a policy on existing objects.
type Previewer interface {
	ClaimPolicy(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy) []string
	GrantPolicy(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) []string
}

// Permissions looks up the permissions of users.
type Permissions interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
	// MayRead reports whether a user may get the objects of a kind, in all namespaces.
	MayRead(ctx context.Context, user authenticationv1.UserInfo, kind schema.GroupVersionKind) (bool, error)
}

// QuotaSpecs validates ResourceQuotas by the rules of the API server.
type QuotaSpecs interface {
	// Check returns the errors in the spec of a ResourceQuota at a path.
	Check(ctx context.Context, path *field.Path, quota *corev1.ResourceQuota) (field.ErrorList, error)
}

// MemberNamespaces are the namespaces that may count under allocations.
type MemberNamespaces interface {
	// Selected returns the known namespaces that a selector selects.
	Selected(selector labels.Selector) []string
}

// Namespaces are all namespaces.
type Namespaces interface {
	// Active reports whether a namespace exists without a deletion under way.
	Active(ctx context.Context, name string) (bool, error)
}

// Advice returns warnings for authors of objects. It rejects nothing.
type Advice interface {
	Grant(ctx context.Context, user authenticationv1.UserInfo, old, new *quotav1alpha1.ResourceGrant) []string
	Claim(ctx context.Context, claim *quotav1alpha1.ResourceClaim) []string
	Consumer(ref quotav1alpha1.ConsumerRef) []string
	Registration(old, new *quotav1alpha1.ResourceRegistration) []string
	QuotaNames(hard corev1.ResourceList) []string
	SystemObjects(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy) []string
}

// Validation returns the handler of the validating webhook.
func (w *Webhooks) Validation() http.Handler {
	validators := w.validators()
	return reviewer(func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return w.validate(ctx, validators, request)
	})
}

// Mutation returns the handler of the mutating webhook.
func (w *Webhooks) Mutation() http.Handler {
	return reviewer(func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return complete(request)
	})
}

// Stamp returns the handler of the mutating webhook for the users of requests and decisions.
func (w *Webhooks) Stamp() http.Handler {
	return reviewer(func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return stamp(request)
	})
}

// StampGrant returns the handler of the mutating webhook for the users behind changes of grants.
func (w *Webhooks) StampGrant() http.Handler {
	return reviewer(func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return stampGrant(request)
	})
}

// ConsumerType returns the handler of the mutating webhook for the two names of a registration's consumer kind.
func (w *Webhooks) ConsumerType() http.Handler {
	return reviewer(func(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return fillConsumerType(request)
	})
}

// reviewer returns a handler of admission reviews that calls answer for each.
func reviewer(answer func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review.Serve(w, r, func(request *admissionv1.AdmissionRequest, _ []byte) *admissionv1.AdmissionResponse {
			ctx, cancel := context.WithTimeout(r.Context(), review.Timeout(r))
			defer cancel()
			return answer(ctx, request)
		})
	})
}

// validate answers a review by the validator of its kind.
func (w *Webhooks) validate(ctx context.Context, validators map[schema.GroupVersionKind]validator, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	kind := schema.GroupVersionKind(request.Kind)
	validator, ok := validators[kind]
	switch {
	case !ok:
		return unexpected(request)
	case request.RequestKind != nil && request.RequestKind.Version == quotav1alpha1.GrantedVersion && request.Operation != admissionv1.Delete:
		return w.grantedClaim(request)
	case request.SubResource == subresourceStatus && (kind.Group == quotav1alpha1.GroupName || kind.Group == openmcpv1alpha1.GroupName):
		return w.status(request)
	case request.SubResource != "":
		return unexpected(request)
	}
	result, err := validator(ctx, request)
	if err != nil {
		return errorResponse(apierrors.NewBadRequest(err.Error()))
	}
	return result.response(request)
}
