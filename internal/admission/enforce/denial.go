package enforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// explainTimeout bounds how long a denial looks up holders and permissions. The deadline of the request may come first.
const explainTimeout = 2 * time.Second

// lack is a consumer's lack of quota for a request.
type lack struct {
	consumer  quotav1alpha1.ConsumerRef
	policies  []string
	shortages []ledger.Shortage
	// totals are the total charges of the object after an update.
	totals []ledger.Charge
}

// lackOf returns a consumer's lack for the claims of a new object.
func lackOf(evaluated []*evaluatedClaim, shortages []ledger.Shortage) lack {
	l := lack{consumer: evaluated[0].Consumer, shortages: shortages}
	for _, p := range evaluated {
		l.policies = append(l.policies, p.Policy)
	}
	return l
}

// deny denies a request for lack of quota. If the request would fit without creates in flight, it answers "try again"
// instead.
func (h *Handler) deny(ctx context.Context, request *admissionv1.AdmissionRequest, lacks []lack) *admissionv1.AdmissionResponse {
	if held := h.heldFor(ctx, request, lacks); held != nil {
		return tryAgain(held)
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	var sentences []string
	var causes []metav1.StatusCause
	for _, l := range lacks {
		d := h.denialOf(ctx, request, l)
		maySee := h.maySee(ctx, request, l.consumer)
		if maySee {
			sentences = append(sentences, d.Sentences(h.Catalog))
		} else {
			sentences = append(sentences, d.Hidden(h.Catalog))
		}
		causes = append(causes, causesOf(l, d, maySee)...)
		h.recordDenial(request, d)
	}
	for i := range sentences[1:] {
		sentences[i] = strings.TrimSuffix(sentences[i], ".")
	}
	response := review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", strings.Join(sentences, "; also "))
	response.Result.Details = detailsOf(lacks[0].consumer, causes)
	return response
}

// denialOf adds facts for people to a lack: totals, holders, and whether the consumer exists.
func (h *Handler) denialOf(ctx context.Context, request *admissionv1.AdmissionRequest, l lack) *message.Denial {
	d := message.Of(l.consumer, l.shortages)
	for i := range d.Shortfalls {
		s := &d.Shortfalls[i]
		for _, total := range l.totals {
			if total.ResourceType == s.ResourceType && total.Dimensions == s.Dimensions {
				s.Total = total.Amount
			}
		}
		if s.IsUngranted() {
			d.IsMissing = d.IsMissing || h.isMissing(ctx, l.consumer)
		} else {
			s.Holders = h.holders(ctx, request, l.consumer, s.ResourceType)
		}
	}
	return d
}

// recordDenial records a denial for readers of the consumer's quota. A missing consumer has no readers.
func (h *Handler) recordDenial(request *admissionv1.AdmissionRequest, d *message.Denial) {
	if h.Denials == nil || review.IsDryRun(request) || d.IsMissing {
		return
	}
	name := cmp.Or(request.Name, "with a generated name")
	if request.Namespace != "" {
		name = request.Namespace + "/" + name
	}
	h.Denials.RecordDenial(d.Consumer, d.Shortfalls[0].ResourceType,
		fmt.Sprintf("%s of %s %s by %s was denied: %s", request.Operation, request.Kind.Kind, name, request.UserInfo.Username, d.Sentences(h.Catalog)))
}

// isMissing reports whether the consumer certainly does not exist.
func (h *Handler) isMissing(ctx context.Context, consumer quotav1alpha1.ConsumerRef) bool {
	if h.Consumers == nil {
		return false
	}
	key := fmt.Sprintf("exists %q", fmt.Sprint(consumer))
	if known, ok := h.cached.Get(key); ok {
		return known.(bool)
	}
	exists, err := h.Consumers.ConsumerExists(ctx, consumer)
	if err != nil {
		return false
	}
	h.cached.Set(key, !exists, permissionTTL)
	return !exists
}

// causesOf returns a lack as causes, for programs.
func causesOf(l lack, d *message.Denial, withFigures bool) []metav1.StatusCause {
	causes := make([]metav1.StatusCause, 0, len(d.Shortfalls))
	for i := range d.Shortfalls {
		s := &d.Shortfalls[i]
		cause := quotav1alpha1.Denial{
			Reason: quotav1alpha1.CauseQuotaExceeded, Policies: l.policies, Consumer: &l.consumer,
			ResourceType: s.ResourceType, Dimensions: s.Dimensions.Map(),
		}
		if withFigures {
			if s.IsUngranted() {
				cause.Reason = quotav1alpha1.CauseNothingGranted
			}
			cause.Figures = &quotav1alpha1.DenialFigures{
				Requested: int64(s.Requested), Used: int64(s.Used), Limited: int64(s.Limit), Available: int64(s.Available),
			}
		}
		causes = append(causes, cause.Cause())
	}
	return causes
}

// detailsOf returns the details of a denial for lack of a consumer's quota.
func detailsOf(consumer quotav1alpha1.ConsumerRef, causes []metav1.StatusCause) *metav1.StatusDetails {
	return &metav1.StatusDetails{Group: consumer.APIGroup, Kind: consumer.Kind, Name: consumer.Name, Causes: causes}
}

// denyNotApplicable denies a request with an object to which a policy is not applicable.
func denyNotApplicable(policy string, err error) *admissionv1.AdmissionResponse {
	if evaluator.IsTransient(err) {
		return tryAgain(err)
	}
	if full := (*message.FullError)(nil); errors.As(err, &full) {
		return review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", full)
	}
	response := review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", notApplicable(policy, err))
	response.Result.Details = &metav1.StatusDetails{
		Group: quotav1alpha1.GroupName, Kind: "ClaimCreationPolicy", Name: policy,
		Causes: []metav1.StatusCause{quotav1alpha1.Denial{Reason: quotav1alpha1.CausePolicyNotApplicable, Policies: []string{policy}}.Cause()},
	}
	return response
}

// tryAgain rejects a currently undecidable request.
func tryAgain(err error) *admissionv1.AdmissionResponse {
	response := review.Undecided(err, isBusy(err))
	response.Result.Details.Causes = []metav1.StatusCause{quotav1alpha1.Denial{Reason: quotav1alpha1.CauseUndecided}.Cause()}
	return response
}

// errHeld means that creates in flight hold quota. They may still fail.
var errHeld = errors.New("held by creates in flight")

// heldFor returns errHeld, with the amounts, if a request would fit without the reservations of creates in flight.
// Any other error means that heldFor could not determine this.
func (h *Handler) heldFor(ctx context.Context, request *admissionv1.AdmissionRequest, lacks []lack) error {
	var first error
	for _, l := range lacks {
		held := h.heldOf(l.consumer)
		if len(held) == 0 {
			return nil
		}
		if fits, err := h.fitsWithout(ctx, l, held); err != nil || !fits {
			return err
		}
		if first == nil {
			first = h.describeHeld(ctx, request, l, amountsOf(held))
		}
	}
	return first
}

func (h *Handler) describeHeld(ctx context.Context, request *admissionv1.AdmissionRequest, l lack, held map[string]ledger.Amount) error {
	consumer := message.Consumer(l.consumer)
	if !h.maySee(ctx, request, l.consumer) {
		return fmt.Errorf("the quota of %s is %w", consumer, errHeld)
	}
	var parts []string
	for _, s := range l.shortages {
		r := h.Catalog.Registration(s.ResourceType)
		if r == nil {
			continue
		}
		if text := fmt.Sprintf("%s of %s quota of %s", message.Amount(held[s.ResourceType], r), r.Subject(), consumer); !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return fmt.Errorf("%s: %w", strings.Join(parts, ", "), errHeld)
}
