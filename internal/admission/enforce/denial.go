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
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
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

// deny denies a request for lack of quota. If the request would fit without requests in flight, it answers "try again"
// instead: these may still fail, and until then nobody knows whether the quota is used.
func (h *Handler) deny(ctx context.Context, request *admissionv1.AdmissionRequest, lacks []lack) *admissionv1.AdmissionResponse {
	if err := h.checkHeld(ctx, request, lacks); err != nil {
		response := tryAgain(err)
		if errors.Is(err, errHeld) {
			response.Result.Details.Causes = h.heldCauses(ctx, request, lacks)
		}
		return response
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
	d := h.separateHeld(message.Of(l.consumer, l.shortages))
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

// separateHeld takes what requests in flight hold out of the used amounts: it is not in use yet, and may never be.
func (h *Handler) separateHeld(d *message.Denial) *message.Denial {
	held, _ := h.unconfirmedReservations(d.Consumer)
	amounts := amountsOf(held)
	for i := range d.Shortfalls {
		s := &d.Shortfalls[i]
		s.Held = min(amounts[s.ResourceType], s.Used)
		s.Used -= s.Held
	}
	return d
}

// heldCauses are the causes of an answer for quota that requests in flight hold.
func (h *Handler) heldCauses(ctx context.Context, request *admissionv1.AdmissionRequest, lacks []lack) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, l := range lacks {
		d := h.separateHeld(message.Of(l.consumer, l.shortages))
		for _, cause := range denialsOf(l, d, h.maySee(ctx, request, l.consumer)) {
			cause.Reason = quotav1alpha1.CauseQuotaHeld
			causes = append(causes, cause.Cause())
		}
	}
	return causes
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
	for _, cause := range denialsOf(l, d, withFigures) {
		causes = append(causes, cause.Cause())
	}
	return causes
}

func denialsOf(l lack, d *message.Denial, withFigures bool) []quotav1alpha1.Denial {
	denials := make([]quotav1alpha1.Denial, 0, len(d.Shortfalls))
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
				Requested: int64(s.Requested), Used: int64(s.Used), Held: int64(s.Held), Limited: int64(s.Limit), Available: int64(s.Available),
			}
		}
		denials = append(denials, cause)
	}
	return denials
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
		response := review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", full)
		response.Result.Details = &metav1.StatusDetails{
			Causes: []metav1.StatusCause{quotav1alpha1.Denial{Reason: quotav1alpha1.CauseLedgerFull, Policies: []string{policy}}.Cause()},
		}
		return response
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
	response.Result.Details.Causes = []metav1.StatusCause{quotav1alpha1.Denial{Reason: causeOf(err)}.Cause()}
	return response
}

// causeOf returns the cause of an undecided request.
func causeOf(err error) metav1.CauseType {
	switch {
	case errors.Is(err, errHeld), isTooMuchHeld(err):
		return quotav1alpha1.CauseQuotaHeld
	case errors.Is(err, ledgerstore.ErrBusy):
		return quotav1alpha1.CauseLedgerFull
	default:
		return quotav1alpha1.CauseUndecided
	}
}

// errFailedLately takes the place of [ledgerstore.ErrTooMuchHeld] for a requester without other requests.
var errFailedLately = errors.New("for a few minutes, as much as a request takes stays free for others")

// denyTooMuchHeld answers a request whose requester already holds too much by requests that may still fail, or did so
// lately.
func denyTooMuchHeld(requester string, consumer quotav1alpha1.ConsumerRef, charges []ledger.Charge, err error) *admissionv1.AdmissionResponse {
	text := fmt.Sprintf("requests in flight by %s %s %s", requester, message.HeldByRequester, message.Consumer(consumer))
	if errors.Is(err, errFailedLately) {
		text = fmt.Sprintf("earlier requests by %s %s quota of %s", requester, message.HeldUntilFailed, message.Consumer(consumer))
	}
	response := tryAgain(fmt.Errorf("%s: %w", text, err))
	response.Result.Details.Causes = nil
	for _, charge := range charges {
		response.Result.Details.Causes = append(response.Result.Details.Causes, quotav1alpha1.Denial{
			Reason: quotav1alpha1.CauseQuotaHeld, Consumer: &consumer, ResourceType: charge.ResourceType, Dimensions: charge.Dimensions.Map(),
		}.Cause())
	}
	return response
}

// isHeldAnswer reports whether requests in flight hold the quota of a request.
func isHeldAnswer(response *admissionv1.AdmissionResponse) bool {
	return !response.Allowed && response.Result.Details != nil && slices.ContainsFunc(response.Result.Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Type == quotav1alpha1.CauseQuotaHeld
	})
}

// errHeld means that requests in flight hold quota. They may still fail.
var errHeld = errors.New("nobody has seen their effect yet")

// checkHeld returns errHeld, with the amounts, if a request would fit without the reservations of requests in flight.
// Any other error means that checkHeld could not determine this.
func (h *Handler) checkHeld(ctx context.Context, request *admissionv1.AdmissionRequest, lacks []lack) error {
	var first error
	for _, l := range lacks {
		held, _ := h.unconfirmedReservations(l.consumer)
		if len(held) == 0 {
			return nil
		}
		if fits, err := h.fitsWithout(ctx, l, held); err != nil || !fits {
			return err
		}
		h.blame(request, l.consumer, held)
		if first == nil {
			first = h.describeHeld(ctx, request, l, amountsOf(held))
		}
	}
	return first
}

// blame records which requests keep quota of a consumer from the user of a request.
func (h *Handler) blame(request *admissionv1.AdmissionRequest, consumer quotav1alpha1.ConsumerRef, held []ledgerstore.InFlight) {
	uids := make([]types.UID, 0, len(held))
	for _, pending := range held {
		uids = append(uids, types.UID(ledgerstore.ObjectUID(pending.Key)))
	}
	h.unconfirmed.markInTheWay(share{requesterOf(request.UserInfo, request.Namespace), consumer}, uids)
}

func (h *Handler) describeHeld(ctx context.Context, request *admissionv1.AdmissionRequest, l lack, held map[string]ledger.Amount) error {
	consumer := message.Consumer(l.consumer)
	if !h.maySee(ctx, request, l.consumer) {
		return fmt.Errorf("%s quota of %s: %w", message.HeldInFlight, consumer, errHeld)
	}
	var parts []string
	for _, s := range l.shortages {
		r := h.Catalog.Registration(s.ResourceType)
		if r == nil {
			continue
		}
		if text := fmt.Sprintf("%s of the %s quota", message.Amount(held[s.ResourceType], r), r.Subject()); !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		parts = []string{"quota"} // of a type whose registration is gone
	}
	return fmt.Errorf("%s %s of %s: %w", message.HeldInFlight, strings.Join(parts, " and "), consumer, errHeld)
}
