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
)

// holdersMax is how many projects are named at most in a refusal of one resource.
const holdersMax = 5

// denial is one resource of which an allocation has not enough room.
type denial struct {
	allocation, namespace string
	shortage              allocation.Shortage
	holders               []allocation.Holder
}

// refuse says which allocations have not enough room, of what, and who has it, as far as the asker may see that.
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

// String says what was asked, what there is, and how much would be possible, in the form that users of core
// ResourceQuota know.
func (r denial) String() string {
	s := r.shortage
	return fmt.Sprintf("exceeded ResourceQuotaAllocation: %s, requested: %s=%s, allocated: %s=%s, limited: %s=%s (namespace %s holds %s and may have up to %s)",
		r.allocation, s.Resource, s.Requested.String(), s.Resource, s.Allocated.String(), s.Resource, s.Limit.String(),
		r.namespace, s.Held.String(), s.Possible())
}

// holdersText says which projects hold how much. Those that the asker may not see are one sum.
func holdersText(r denial, maySee func(allocation, namespace string) bool) string {
	seesAll := maySee(r.allocation, "")
	var parts []string
	var others resource.Quantity
	for i, holder := range r.holders {
		if i < holdersMax && (seesAll || maySee(r.allocation, holder.Project)) {
			parts = append(parts, holder.Project+" "+holder.Amount.String())
		} else {
			others.Add(holder.Amount)
		}
	}
	if !others.IsZero() {
		parts = append(parts, "other projects "+others.String())
	}
	if len(parts) == 0 {
		return ""
	}
	return "held by " + strings.Join(parts, ", ")
}

// remember returns a function that tells whether somebody may see a project, which is asked once for each. What
// cannot be found out is not shown.
func (h *Handler) cachedMaySee(ctx context.Context, user authenticationv1.UserInfo) func(allocation, namespace string) bool {
	known := map[[2]string]bool{}
	return func(allocation, namespace string) bool {
		key := [2]string{allocation, namespace}
		if may, ok := known[key]; ok {
			return may
		}
		may, err := h.maySee(ctx, user, allocation, namespace)
		if err != nil {
			h.Log.Error(err, "cannot find out whether a user may see a project", "user", user.Username, "allocation", allocation, "project", namespace)
		}
		known[key] = may && err == nil
		return known[key]
	}
}

// maySee reports whether somebody may see how much a project takes of an allocation or, without a project, how much all
// do. Bursar itself sees none: what it is told is told to tenants.
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
