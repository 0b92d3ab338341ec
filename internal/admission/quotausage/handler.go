package quotausage

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/admission/sight"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// Handler returns the mutating webhook of QuotaUsages: the answer is a patch of the status. It denies a create without
// a dry run. Usages take their turn: see [review.InTurn].
func (a *Answerer) Handler() http.Handler { return review.InTurn(a.turns, "QuotaUsages", a.respond) }

func (a *Answerer) respond(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if !review.IsDryRun(request) {
		return review.Invalid("Bursar answers a QuotaUsage and never stores it: create it with dryRun=All, as kubectl create --dry-run=server -o yaml and bursar usage --claims do")
	}
	var asked struct {
		Spec quotav1alpha1.QuotaUsageSpec `json:"spec"`
	}
	if err := json.Unmarshal(request.Object.Raw, &asked); err != nil {
		return review.Invalid("the QuotaUsage cannot be read: %v", err)
	}

	spec := &asked.Spec
	if denied := check(spec); denied != nil {
		return denied
	}
	after, err := positionIn(spec)
	if err != nil {
		return review.Invalid("%v", err)
	}

	select {
	case <-a.Ready:
	case <-ctx.Done():
		return review.Unavailable("the policies are still being loaded")
	}

	q := a.newQuestion(request, spec)
	status, err := q.answer(ctx, after)
	switch {
	case errors.Is(err, sight.ErrBlind):
		return a.blind(spec)
	case err != nil:
		return review.Unavailable("which objects use quota could not be found out: %v", err)
	}

	response := review.Patched(review.PatchOperation{Operation: "add", Path: "/status", Value: status})
	response.Warnings = q.warnings()
	return response
}

// check bounds a question: mutating webhooks come before the schema. It returns nil for a question within the bounds.
func check(spec *quotav1alpha1.QuotaUsageSpec) *admissionv1.AdmissionResponse {
	switch consumer, object := spec.ConsumerRef, spec.ResourceRef; {
	case consumer != nil && (consumer.Kind == "" || consumer.Name == ""):
		return review.Invalid("spec.consumerRef needs a kind and a name")
	case object != nil && (object.Kind == "" || object.Name == ""):
		return review.Invalid("spec.resourceRef needs a kind and a name")
	case object != nil && spec.Namespace != "":
		return review.Invalid("give spec.namespace or spec.resourceRef, not both")
	case spec.Limit < 0 || spec.Limit > quotav1alpha1.UsageLimitMax:
		return review.Invalid("spec.limit is %d: give 1 to %d, and follow status.continue for more", spec.Limit, quotav1alpha1.UsageLimitMax)
	case len(spec.ResourceType) > ledger.ResourceTypeBytesMax:
		return review.Invalid("spec.resourceType has %d characters: no registered type has more than %d", len(spec.ResourceType), ledger.ResourceTypeBytesMax)
	case len(spec.Continue) > quotav1alpha1.UsageContinueMax:
		return review.Invalid("%v", errToken)
	}
	return nil
}

// blind is the answer to users who may not ask. It is the same whether or not there is anything to see.
func (a *Answerer) blind(spec *quotav1alpha1.QuotaUsageSpec) *admissionv1.AdmissionResponse {
	namespace := spec.Namespace
	if spec.ResourceRef != nil {
		namespace = spec.ResourceRef.Namespace
	}
	what, needs := "the objects that use quota in namespace "+namespace, "ResourceClaims in this namespace"
	switch {
	case namespace != "":
	case spec.ConsumerRef == nil:
		what, needs = "the objects that use quota in all namespaces", "EffectiveResourceGrants in all namespaces; name a consumer, or a namespace"
	default:
		what = "the objects that use quota of " + message.Consumer(*spec.ConsumerRef)
		needs = "EffectiveResourceGrants in namespace " + a.Consumers.ConsumerNamespace(*spec.ConsumerRef) + ", as in the role bursar-tenant-viewer"
	}
	return review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden, "you may not see %s: it needs the right to get %s", what, needs)
}
