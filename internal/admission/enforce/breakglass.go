package enforce

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EventReasonBrokenGlass is the reason of the events on objects that were let past enforcement.
const EventReasonBrokenGlass = "BrokenGlass"

// breakGlassWarning is what its user is told of such a request.
const breakGlassWarning = "quota is not enforced for this request, which is recorded; what it creates is charged all the same"

// BreakGlass records the requests that enforcement leaves out: by whom, and of what. It refuses none.
func (h *Handler) BreakGlass() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if !isDryRun(request) {
				h.record(request)
				h.expectUnreviewed(r.Context(), request)
			}
			response := allowed()
			response.Warnings = []string{breakGlassWarning}
			return response
		})
	})
}

// expectUnreviewed has the claims of an object follow a change that nobody decides on.
func (h *Handler) expectUnreviewed(ctx context.Context, request *admissionv1.AdmissionRequest) {
	if request.Operation != admissionv1.Update {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if c, _ := h.changeIn(ctx, request); c != nil {
		h.Updates.Expect(c.Kind.GroupKind(), c.UID, c.base, nil)
	}
}

func (h *Handler) record(request *admissionv1.AdmissionRequest) {
	object := &metav1.PartialObjectMetadata{}
	_ = json.Unmarshal(request.Object.Raw, object) // what cannot be read has the name of the request
	object.Name, object.Namespace = cmp.Or(object.Name, request.Name), request.Namespace
	h.metrics.brokenGlass.Inc()
	h.Log.Info("the glass was broken", "operation", request.Operation, "kind", request.Kind.Kind, "namespace", object.Namespace,
		"name", object.Name, "user", request.UserInfo.Username, "groups", request.UserInfo.Groups)
	if h.Events == nil {
		return
	}
	object.SetGroupVersionKind(schema.GroupVersionKind(request.Kind))
	h.Events.Eventf(object, nil, corev1.EventTypeWarning, EventReasonBrokenGlass, "BreakGlass",
		"%s by %s (groups %s) was let past quota enforcement", request.Operation, request.UserInfo.Username, strings.Join(request.UserInfo.Groups, ", "))
}
