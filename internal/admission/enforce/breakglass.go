package enforce

import (
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
)

// breakGlassWarning is the warning to the user of such a request.
const breakGlassWarning = "Bursar does not enforce quota for this request, and records it; it still charges the created objects"

// BreakGlass returns a handler for requests that bypass enforcement. It records the user and the object. It admits all
// requests.
func (h *Handler) BreakGlass() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review.Serve(w, r, func(request *admissionv1.AdmissionRequest, _ []byte) *admissionv1.AdmissionResponse {
			if !review.IsDryRun(request) {
				h.recordBreakGlass(request)
			}
			response := review.Allowed()
			response.Warnings = []string{breakGlassWarning}
			return response
		})
	})
}

// recordBreakGlass records a request. The event names the version of the object, so the next change of the same
// object gets an event of its own.
func (h *Handler) recordBreakGlass(request *admissionv1.AdmissionRequest) {
	object, version, _ := h.subjectOf(request) // an error leaves only fields empty
	h.metrics.brokenGlass.Inc()
	h.Log.Info("a break-glass request passed without quota enforcement", "operation", request.Operation, "kind", object.Kind.Kind, "namespace", object.Name.Namespace,
		"name", object.Name.Name, "user", request.UserInfo.Username, "groups", request.UserInfo.Groups)
	if h.Events == nil {
		return
	}
	about := object.Reference()
	about.ResourceVersion = version
	h.Events.Eventf(about, nil, corev1.EventTypeWarning, quotav1alpha1.EventBrokenGlass, "BreakGlass",
		"%s by %s passed without quota enforcement; the groups are %s", request.Operation, request.UserInfo.Username, strings.Join(request.UserInfo.Groups, ", "))
}
