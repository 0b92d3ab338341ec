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
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/plan"
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
				h.expectUndecided(request)
				h.record(request, h.changeUnreviewed(r.Context(), request))
			}
			response := allowed()
			response.Warnings = []string{breakGlassWarning}
			return response
		})
	})
}

// changeUnreviewed returns the change that a request makes and nobody decides on, or nil if it makes
// none or that cannot be told.
func (h *Handler) changeUnreviewed(ctx context.Context, request *admissionv1.AdmissionRequest) *change {
	if request.Operation != admissionv1.Update {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, _ := h.changeIn(ctx, request)
	return c
}

// record tells of a request, and of the change that it makes if it is known. The version of the
// object is part of what is told: the next change of the same object is a request of its own.
func (h *Handler) record(request *admissionv1.AdmissionRequest, c *change) {
	object, version := subjectOf(request)
	if c != nil {
		object, version = c.Object, c.base
	}
	h.metrics.brokenGlass.Inc()
	h.Log.Info("the glass was broken", "operation", request.Operation, "kind", object.Kind.Kind, "namespace", object.Name.Namespace,
		"name", object.Name.Name, "user", request.UserInfo.Username, "groups", request.UserInfo.Groups)
	if h.Events == nil {
		return
	}
	about := object.Reference()
	about.ResourceVersion = version
	h.Events.Eventf(about, nil, corev1.EventTypeWarning, EventReasonBrokenGlass, "BreakGlass",
		"%s by %s was let past quota enforcement; the groups are %s", request.Operation, request.UserInfo.Username, strings.Join(request.UserInfo.Groups, ", "))
}

// subjectOf returns what a request says of its object. Of one that cannot be read that is the name.
func subjectOf(request *admissionv1.AdmissionRequest) (object plan.Object, version string) {
	meta := &metav1.PartialObjectMetadata{}
	_ = json.Unmarshal(request.Object.Raw, meta)
	return plan.Object{
		Kind: schema.GroupVersionKind(request.Kind), UID: meta.UID,
		Name: types.NamespacedName{Namespace: request.Namespace, Name: cmp.Or(meta.Name, request.Name)},
	}, meta.ResourceVersion
}
