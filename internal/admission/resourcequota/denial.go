package resourcequota

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/quantity"
)

// holdersMax bounds the number of member namespaces that a denial names per resource.
const holdersMax = 5

// denial is the shortage of one resource in an allocation.
type denial struct {
	allocation, namespace string
	scopes                allocation.Scopes
	shortage              allocation.Shortage
	holders               []allocation.Holder
}

// deny returns a denial with all shortages and the holders of each resource. It names the holders that the user may
// see.
func (h *Handler) deny(ctx context.Context, request *admissionv1.AdmissionRequest, denials []denial) *admissionv1.AdmissionResponse {
	maySee := h.cachedMaySee(ctx, request.UserInfo)
	var sentences []string
	var causes []metav1.StatusCause
	for _, r := range denials {
		sentence := r.String()
		if held := holdersText(r, maySee); held != "" {
			sentence += "; " + held
		}
		sentences = append(sentences, sentence)
		causes = append(causes, metav1.StatusCause{
			Type: quotav1alpha1.CauseAllocationExceeded, Field: fmt.Sprintf("spec.hard[%s]", r.shortage.Resource), Message: sentence,
		})
	}
	response := review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden,
		"%s. Ask for less, lower another ResourceQuota that counts, or ask an administrator to raise the allocation.", strings.Join(sentences, "; "))
	response.Result.Details = &metav1.StatusDetails{
		Kind: string(corev1.ResourceQuotas), Name: request.Name, Causes: causes,
	}
	return response
}

// String returns the requested, allocated and possible amounts, in the form that users of core ResourceQuota know.
func (r denial) String() string {
	s, capped := r.shortage, r.allocation
	if scopes := r.scopes.Text(); scopes != "" {
		capped += " (" + scopes + ")"
	}
	return fmt.Sprintf("exceeded ResourceQuotaAllocation: %s, requested: %s=%s, allocated: %s=%s, limited: %s=%s (namespace %s holds %s and may have up to %s)",
		capped, s.Resource, quantity.Text(s.Requested), s.Resource, quantity.Text(s.Allocated), s.Resource, quantity.Text(s.Limit),
		r.namespace, quantity.Text(s.Held), s.Possible())
}

// holdersText lists the member namespaces with their amounts. It sums up those that the user may not see.
func holdersText(r denial, maySee func(allocation, namespace string) bool) string {
	seesAll := maySee(r.allocation, "")
	var parts []string
	var others resource.Quantity
	for i, holder := range r.holders {
		if i < holdersMax && (seesAll || maySee(r.allocation, holder.Namespace)) {
			parts = append(parts, holder.Namespace+" "+quantity.Text(holder.Amount))
		} else {
			others.Add(holder.Amount)
		}
	}
	if !others.IsZero() {
		parts = append(parts, "other namespaces "+quantity.Text(others))
	}
	if len(parts) == 0 {
		return ""
	}
	return "held by " + strings.Join(parts, ", ")
}

// cachedMaySee returns maySee for a user, with a cache for the time of one denial. An error counts as "no".
func (h *Handler) cachedMaySee(ctx context.Context, user authenticationv1.UserInfo) func(allocation, namespace string) bool {
	known := map[[2]string]bool{}
	return func(allocation, namespace string) bool {
		key := [2]string{allocation, namespace}
		if may, ok := known[key]; ok {
			return may
		}
		may, err := h.maySee(ctx, user, allocation, namespace)
		if err != nil {
			h.Log.Error(err, "cannot find out whether a user may see a member namespace", "user", user.Username, "allocation", allocation, "namespace", namespace)
		}
		known[key] = may && err == nil
		return known[key]
	}
}

// maySee reports whether a user may see the amounts of a member namespace in an allocation or, without a namespace, the
// amounts of all. Bursar itself may see none, because it passes denials on to tenants.
func (h *Handler) maySee(ctx context.Context, user authenticationv1.UserInfo, allocation, namespace string) (bool, error) {
	if user.Username == h.Username {
		return false, nil
	}
	what := authorizationv1.ResourceAttributes{Verb: "get", Group: quotav1alpha1.GroupName, Resource: "resourcequotaallocations", Name: allocation}
	if namespace != "" {
		what.Resource, what.Namespace = "localresourcequotaallocations", namespace
	}
	return h.Permissions.May(ctx, user, what)
}
