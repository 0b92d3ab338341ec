// Package validate is the webhooks on Bursar's own kinds, those of the groups quota.miloapis.com and
// openmcp.cloud, and on the deletion of its system namespace.
//
// Validation judges every create and update by one pure function a kind ([Registration], [Grant],
// [Claim], ...), which tells everything that is wrong at once, each with the path of its field.
// An update is judged by what it changes, so that an object from before a rule was made can still
// be maintained and deleted. What only Bursar may do is refused to everybody else: making
// buckets and effective grants, writing ledgers and any status, marking claims and grants as a
// policy's, and deleting a claim whose object exists. A registration that is deleted stays while
// policies or grants rely on it, and takes nothing new.
// What may still become right by itself, such as a grant for a type that nobody has registered
// yet, is accepted with a warning.
//
// Mutation puts the finalizer on claims, so that none goes away with its charge still in the books, and the labels that name
// their consumer.
package validate

import (
	"context"
	"net/http"
	"time"

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
)

const (
	// reviewTimeMax leaves time to tell the user what could not be found out, before the API
	// server gives up after [timeoutSeconds].
	reviewTimeMax = timeoutSeconds*time.Second - 500*time.Millisecond
)

// Webhooks answers the reviews of Bursar's own kinds. All fields are set once, before use. It is
// safe for concurrent use if they are.
type Webhooks struct {
	// Username is the name by which the API server knows Bursar itself.
	Username string
	// SystemNamespace is the namespace that may not be deleted.
	SystemNamespace string
	// Registrations are those that are stored right now, and Catalog is what the declared ones come to.
	Registrations Registrations
	Catalog       Catalog
	// Claims are those that are known, and Engine finds out whether they are needed.
	Claims Claims
	Engine Engine
	// GrantPolicies are the policies that make grants.
	GrantPolicies GrantPolicies
	// Previewer finds out what policies would do, and Advice warns of what a write does that its author may not expect.
	Previewer        Previewer
	Advice           Advice
	Permissions      Permissions
	QuotaSpecs       QuotaSpecs
	MemberNamespaces MemberNamespaces
	Namespaces       Namespaces
}

// Registrations answers by what is stored right now. It need not know of creates that go on at the same time.
type Registrations interface {
	// RegisteredBy names the registration that a resource type has, or is empty.
	RegisteredBy(ctx context.Context, resourceType string) (string, error)
	// InUse returns who relies on a registration, and what to do about it, or "".
	InUse(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) (string, error)
	// AmountsOf names an object with an amount of a resource type, or nothing.
	AmountsOf(ctx context.Context, resourceType string) (string, error)
}

// Catalog judges by the declared registrations, as things are. Each method returns why not, or nil.
type Catalog interface {
	// CheckNew returns why one of these resource types takes nothing new.
	CheckNew(resourceTypes ...string) error
	// CheckGrant returns why a grant is not going to be active.
	CheckGrant(spec *quotav1alpha1.ResourceGrantSpec) error
	// CheckClaim returns why a claim cannot be decided.
	CheckClaim(spec *quotav1alpha1.ResourceClaimSpec) error
	// CheckPolicy returns why the registrations do not allow what a policy's claims request.
	CheckPolicy(policy *quotav1alpha1.ClaimCreationPolicy) error
	// CheckClaiming returns why the kind of a policy may not claim what the policy requests.
	CheckClaiming(policy *quotav1alpha1.ClaimCreationPolicy) error
}

// Claims are the claims, as far as they are known.
type Claims interface {
	// CountOf returns how many claims there are that have the label of a policy.
	CountOf(policy string) int
}

// Engine knows which claims are needed.
type Engine interface {
	// InUse reports whether the object that a claim pays for exists right now.
	InUse(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error)
}

// GrantPolicies are the policies that make grants.
type GrantPolicies interface {
	// Check returns why a policy is not going to be effective as things are, or nil.
	Check(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) error
	// GrantsOf returns how many grants a policy has made in this control plane that are still there.
	GrantsOf(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) (int, error)
}

// Previewer returns warnings about what a policy would do with the objects that exist.
type Previewer interface {
	ClaimPolicy(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy) []string
	GrantPolicy(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) []string
}

// Permissions are those of users.
type Permissions interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
	// MayRead reports whether a user may get the objects of a kind, in all namespaces.
	MayRead(ctx context.Context, user authenticationv1.UserInfo, kind schema.GroupVersionKind) (bool, error)
}

// QuotaSpecs judges ResourceQuotas.
type QuotaSpecs interface {
	// Check returns what is wrong with the spec of a ResourceQuota, which is at a path.
	Check(ctx context.Context, path *field.Path, quota *corev1.ResourceQuota) (field.ErrorList, error)
}

// MemberNamespaces are the namespaces that may count under allocations.
type MemberNamespaces interface {
	// Selected returns those that a selector selects, as far as they are known.
	Selected(selector labels.Selector) []string
}

// Namespaces are all namespaces.
type Namespaces interface {
	// Active reports whether a namespace exists and is not being deleted.
	Active(ctx context.Context, name string) (bool, error)
}

// Advice warns those who write objects. It rejects nothing.
type Advice interface {
	Grant(ctx context.Context, user authenticationv1.UserInfo, old, new *quotav1alpha1.ResourceGrant) []string
	Claim(ctx context.Context, claim *quotav1alpha1.ResourceClaim) []string
	Consumer(ref quotav1alpha1.ConsumerRef) []string
	Registration(old, new *quotav1alpha1.ResourceRegistration) []string
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

// reviewer serves admission reviews, each answered by answer.
func reviewer(answer func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review.Serve(w, r, func(request *admissionv1.AdmissionRequest, _ []byte) *admissionv1.AdmissionResponse {
			ctx, cancel := context.WithTimeout(r.Context(), reviewTimeMax)
			defer cancel()
			return answer(ctx, request)
		})
	})
}

// validate answers a review by the judge of its kind.
func (w *Webhooks) validate(ctx context.Context, validators map[schema.GroupVersionKind]validator, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	kind := schema.GroupVersionKind(request.Kind)
	validator, ok := validators[kind]
	switch {
	case !ok:
		return unexpected(request)
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
