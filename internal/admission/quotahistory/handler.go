package quotahistory

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	quotasight "github.com/bursar/bursar/internal/admission/sight"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// Handler returns the mutating webhook of QuotaHistories: the answer is a patch of the status. It denies a create
// without a dry run. Histories take their turn: see [review.InTurn].
func (r *Reader) Handler() http.Handler { return review.InTurn(r.turns, "QuotaHistories", r.respond) }

func (r *Reader) respond(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if !review.IsDryRun(request) {
		return review.Invalid("Bursar answers a QuotaHistory and never stores it: create it with dryRun=All, as kubectl create --dry-run=server -o yaml and bursar history do")
	}
	var asked struct {
		Spec quotav1alpha1.QuotaHistorySpec `json:"spec"`
	}
	if err := json.Unmarshal(request.Object.Raw, &asked); err != nil {
		return review.Invalid("the QuotaHistory cannot be read: %v", err)
	}

	spec := &asked.Spec
	if denied := check(spec); denied != nil {
		return denied
	}
	from, err := tokenOf(spec)
	if err != nil {
		return review.Invalid("%v", err)
	}

	if r.Journal == nil {
		return noJournal()
	}
	sight, err := r.sightOf(ctx, request.UserInfo, spec.ConsumerRef)
	if err != nil {
		return r.failed(err, sight, spec)
	}

	status, err := r.page(ctx, spec, from, sight)
	if err == nil && len(status.Entries) == 0 {
		err = r.checkEntries(ctx, spec)
	}
	r.health.noteRead(err)
	if err != nil {
		return r.failed(err, sight, spec)
	}

	response := review.Patched(review.PatchOperation{Operation: "add", Path: "/status", Value: status})
	response.Warnings = r.damageWarnings(sight)
	if status.Continue == "" {
		response.Warnings = append(response.Warnings, r.backlogWarnings(sight)...)
	}
	return response
}

// check bounds a question: mutating webhooks come before the schema. It returns nil for a question within the bounds.
func check(spec *quotav1alpha1.QuotaHistorySpec) *admissionv1.AdmissionResponse {
	switch {
	case spec.ConsumerRef.Kind == "" || spec.ConsumerRef.Name == "":
		return review.Invalid("spec.consumerRef needs a kind and a name")
	case spec.Limit < 0 || spec.Limit > quotav1alpha1.HistoryLimitMax:
		return review.Invalid("spec.limit is %d: give 1 to %d, and follow status.continue for more", spec.Limit, quotav1alpha1.HistoryLimitMax)
	case len(spec.ResourceType) > ledger.ResourceTypeBytesMax:
		return review.Invalid("spec.resourceType has %d characters: no registered type has more than %d", len(spec.ResourceType), ledger.ResourceTypeBytesMax)
	case len(spec.Continue) > quotav1alpha1.HistoryContinueMax:
		return review.Invalid("%v", errToken)
	case spec.Since != nil && spec.Until != nil && !spec.Since.Before(spec.Until):
		return review.Invalid("spec.since must be earlier than spec.until")
	}
	return nil
}

// noJournal is the answer where there is nothing to read.
func noJournal() *admissionv1.AdmissionResponse {
	return notFound(quotav1alpha1.CauseNoJournal,
		"there is no journal to read here: it goes to standard output (bursar reads it from the collected log with --journal FILE), or it is switched off; "+
			"an administrator can have Bursar keep it in files or in an S3-compatible store")
}

func notFound(cause metav1.CauseType, format string, args ...any) *admissionv1.AdmissionResponse {
	response := review.Denied(http.StatusNotFound, metav1.StatusReasonNotFound, format, args...)
	response.Result.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause}}}
	return response
}

// failed is the answer to a question without a page. Only users with full sight learn why a journal was unreadable,
// because the reason may name files and stores.
func (r *Reader) failed(err error, sight *sight, spec *quotav1alpha1.QuotaHistorySpec) *admissionv1.AdmissionResponse {
	consumer := message.Consumer(spec.ConsumerRef)
	switch {
	case errors.Is(err, quotasight.ErrBlind):
		return review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden,
			"you may not read the journal of %s: it needs the right to get its ConsumerLedger, as in the role bursar-journal-reader, or, without actors, "+
				"to get EffectiveResourceGrants in namespace %s, as in the role bursar-tenant-viewer", consumer, sight.home)
	case errors.Is(err, errNoEntries):
		return notFound(quotav1alpha1.CauseNoEntries, "the journal has no entry of %s: check the name and the API group", consumer)
	case errors.Is(err, errLate):
		return review.Denied(http.StatusGatewayTimeout, metav1.StatusReasonTimeout,
			"the journal of %s is too long to search it in time: narrow spec.since and spec.until", consumer)
	}
	r.Log.Error(err, "a journal could not be read", "consumer", consumer)
	reason := err.Error()
	if of := (sourceError{}); errors.As(err, &of) && !sight.seesAll {
		reason = "an administrator finds the reason in Bursar's log"
	}
	return review.Unavailable("the journal of %s could not be read: %s", consumer, reason)
}
