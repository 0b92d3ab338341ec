package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// rollbackTimeout bounds the rollback of reservations after a later consumer falls short, so the answer is still in
// time. Later, the remaining reservations expire.
const rollbackTimeout = 500 * time.Millisecond

// taken is a new reservation in a consumer's ledger.
type taken = engine.Reserved

// reserve reserves every claim of an enforcing policy, or none: consumer by consumer in a fixed order, with all claims
// on one consumer in one request. Then it checks the claims of the other policies.
func (h *Handler) reserve(ctx context.Context, request *admissionv1.AdmissionRequest, c *create) *admissionv1.AdmissionResponse {
	groups := byConsumer(c.claims)
	if h.admitFromSlice(c, groups) {
		h.admitted.add(c)
		return h.allowWithNotices(ctx, request, c.Object, c.notices)
	}
	if denial := h.denyEarly(ctx, request, groups); denial != nil {
		return denial
	}

	// Until every consumer has decided, denials of other requests wait: this create may still give its quota back.
	tentative, conclude := h.tentativeContext(ctx, c.UID, enforcedOf(groups))
	defer conclude()

	var all []taken
	notices := slices.Clone(c.notices)
	for i, evaluated := range groups {
		if !evaluated[0].policy.Enforces() {
			h.warn(ctx, evaluated, &notices)
			continue
		}

		outcome, err := h.reserveSparing(tentative, c, evaluated, len(enforcedOf(groups)) == 1)
		if err != nil || outcome.Code != ledger.Admitted {
			h.rollback(ctx, all)
			h.unconfirmed.end(c.UID, isOf(all))
			return h.denyReservation(ctx, request, c, groups[i:], outcome, err)
		}
		all = append(all, newReservations(evaluated, outcome)...)
		c.isShared = c.isShared || hasOthers(evaluated, outcome)
	}

	h.admitted.add(c)
	return h.allowWithNotices(ctx, request, c.Object, notices)
}

// denyReservation answers a create without a reservation for the first of these groups of claims.
func (h *Handler) denyReservation(ctx context.Context, request *admissionv1.AdmissionRequest, c *create, groups [][]*evaluatedClaim, outcome ledgerstore.Outcome, err error) *admissionv1.AdmissionResponse {
	switch refused := groups[0]; {
	case isTooMuchHeld(err):
		return denyTooMuchHeld(c.requester, refused[0].Consumer, chargesOf(refused), err)
	case err != nil:
		return tryAgain(err)
	default:
		return h.denialFor(ctx, request, refused, outcome, groups[1:])
	}
}

// admitFromSlice admits an object without a write to the ledger, if this replica has reserved quota ahead of demand.
// If the replica dies before it records the charge, the object counts all the same once it exists. So all its policies
// have to count objects, and no other object may have its name.
func (h *Handler) admitFromSlice(c *create, groups [][]*evaluatedClaim) bool {
	if len(groups) != 1 || !groups[0][0].policy.Enforces() || !countObjects(groups[0]) {
		return false
	}
	if slices.ContainsFunc(groups[0], func(p *evaluatedClaim) bool { return p.policy.IsDurable }) {
		return false
	}
	if earlier := h.admitted.uidOf(objectName{c.Kind.GroupKind(), c.Name}); earlier != "" {
		return false
	}
	held, spare, _ := h.trackRequest(c.requester, groups[0][0].Consumer, c.Object, "", chargesOf(groups[0]))
	isAdmitted := h.Store.Escrow(groups[0][0].Consumer, reservationsOf(groups[0]), spare)
	h.confirmTracked(held, isAdmitted)
	return isAdmitted
}

// reserveSparing reserves the claims of one consumer, unless the requester would then hold more than it leaves to
// others. It waits a little for earlier requests of the requester to have their effect.
func (h *Handler) reserveSparing(ctx context.Context, c *create, evaluated []*evaluatedClaim, isOnly bool) (ledgerstore.Outcome, error) {
	for {
		held, spare, open := h.trackRequest(c.requester, evaluated[0].Consumer, c.Object, "", chargesOf(evaluated))
		outcome, err := h.reserveFor(ctx, c, evaluated, isOnly, spare)
		h.confirmTracked(held, err == nil && outcome.Code == ledger.Admitted)
		switch {
		case !errors.Is(err, ledgerstore.ErrTooMuchHeld):
			return outcome, err
		case open == 0:
			return outcome, errFailedLately
		case !h.waitForOwn(ctx, held.request.share, open, c.until):
			return outcome, err
		}
	}
}

// chargesOf returns the charges of claims.
func chargesOf(evaluated []*evaluatedClaim) []ledger.Charge {
	var charges []ledger.Charge
	for _, p := range evaluated {
		charges = append(charges, p.Charges...)
	}
	return charges
}

// isOf matches the requests for quota of the consumers of reservations.
func isOf(reserved []taken) func(*heldRequest) bool {
	return func(r *heldRequest) bool {
		return slices.ContainsFunc(reserved, func(t taken) bool { return t.Consumer == r.share.consumer })
	}
}

// enforcedOf returns the consumers with an enforced claim.
func enforcedOf(groups [][]*evaluatedClaim) []quotav1alpha1.ConsumerRef {
	var consumers []quotav1alpha1.ConsumerRef
	for _, evaluated := range groups {
		if evaluated[0].policy.Enforces() {
			consumers = append(consumers, evaluated[0].Consumer)
		}
	}
	return consumers
}

// denyEarly denies a create for several consumers if one of them already falls short. It decides before the first
// reservation, because even a short reservation on the other consumers would deny quota to others.
func (h *Handler) denyEarly(ctx context.Context, request *admissionv1.AdmissionRequest, groups [][]*evaluatedClaim) *admissionv1.AdmissionResponse {
	if len(enforcedOf(groups)) < 2 {
		return nil
	}
	for i, evaluated := range groups {
		if !evaluated[0].policy.Enforces() {
			continue
		}
		outcome, err := h.Store.Apply(ctx, evaluated[0].Consumer, ledgerstore.Request{Reservations: reservationsOf(evaluated), DryRun: ledgerstore.DryLikely})
		switch {
		case err != nil:
			return tryAgain(err)
		case outcome.Code != ledger.Admitted:
			return h.denialFor(ctx, request, evaluated, outcome, groups[i+1:])
		}
	}
	return nil
}

// tentativeContext returns a context for the reservations of an object with several consumers. Until the call of
// conclude, other denials wait for these reservations, because the handler may roll them back.
func (h *Handler) tentativeContext(ctx context.Context, uid types.UID, consumers []quotav1alpha1.ConsumerRef) (reserving context.Context, conclude func()) {
	if len(consumers) < 2 {
		return ctx, func() {}
	}
	id := "review:" + string(uid)
	h.deciding.add(uid, 1)
	return ledgerstore.WithTentative(ctx, id), func() {
		for _, consumer := range consumers {
			h.Store.ReleaseDone(consumer, id)
		}
		h.deciding.add(uid, -1)
	}
}

// warn adds a notice for unenforced claims of one consumer beyond the limit. Where objects count, they reserve nothing,
// because the create may still fail. Claims of record take their charges now.
func (h *Handler) warn(ctx context.Context, evaluated []*evaluatedClaim, notices *notices) {
	dryRun := ledgerstore.NotDry
	if countObjects(evaluated) {
		dryRun = ledgerstore.DryLikely
	}
	h.charge(ctx, evaluated, dryRun, notices)
}

// charge charges the unenforced claims of one consumer, beyond the limit if necessary. It does not wait for quota in
// release. In a dry run it charges nothing.
func (h *Handler) charge(ctx context.Context, evaluated []*evaluatedClaim, dryRun ledgerstore.DryRun, notices *notices) {
	request := ledgerstore.Request{Reservations: reservationsOf(evaluated), Separately: true, Overdraft: true, DryRun: dryRun}
	outcome, err := h.Store.Apply(ctx, evaluated[0].Consumer, request)
	if err == nil && slices.ContainsFunc(outcome.Decisions, func(d ledger.Decision) bool { return d.Code == 0 }) {
		err = ledgerstore.ErrBusy
	}
	for i, p := range evaluated {
		switch {
		case err != nil && p.policy.CountsObjects():
			notices.add(p.policy, fmt.Sprintf("quota could not be decided: %v; the object counts once it exists.", err))
		case err != nil:
			notices.add(p.policy, fmt.Sprintf("quota could not be decided: %v; the object may stay uncharged.", err))
		case outcome.Decisions[i].Code != ledger.Admitted:
			notices.add(p.policy, notApplicable(p.Policy, message.Impossible(p.Consumer, outcome.Decisions[i].Code)))
		case len(outcome.Decisions[i].Shortages) > 0:
			notices.lack(p.policy, lackOf([]*evaluatedClaim{p}, outcome.Decisions[i].Shortages))
		}
	}
}

// newReservations returns the reservations made by this review. Another review of the same create may have made the
// others and rely on them, so the handler does not roll them back. The other review can no longer roll them back
// either, since they continue under another sequence.
func newReservations(evaluated []*evaluatedClaim, outcome ledgerstore.Outcome) []taken {
	var made []taken
	for i, decision := range outcome.Decisions {
		if !decision.Existing {
			key := evaluated[i].Key
			made = append(made, taken{Consumer: evaluated[i].Consumer, Key: key, Sequence: decision.Sequence, Before: outcome.RaisedFrom(key)})
		}
	}
	return made
}

// rollback cancels the reservations of a failing create. If the caller has disconnected, the outcome is unknown:
// another replica may be deciding the same review and rely on the reservations. Then rollback leaves them to expire.
func (h *Handler) rollback(ctx context.Context, all []taken) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	// The caller may have no time left. The rollback has its own timeout.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	for _, t := range all {
		// An error leaves the reservation to expire.
		if t.Before != nil {
			_ = h.Store.Lower(ctx, t.Consumer, t.Sequence, *t.Before)
		} else {
			_ = h.Store.Cancel(ctx, t.Consumer, t.Key, t.Sequence)
		}
	}
}

// check answers a dry run with the answer of reserve. It writes nothing.
func (h *Handler) check(ctx context.Context, request *admissionv1.AdmissionRequest, c *create) *admissionv1.AdmissionResponse {
	notices := slices.Clone(c.notices)
	groups := byConsumer(c.claims)
	for i, evaluated := range groups {
		if !evaluated[0].policy.Enforces() {
			h.charge(ctx, evaluated, ledgerstore.Dry, &notices)
			continue
		}
		outcome, err := h.Store.Apply(ctx, evaluated[0].Consumer, ledgerstore.Request{Reservations: reservationsOf(evaluated), DryRun: ledgerstore.Dry})
		if err != nil {
			return tryAgain(err)
		}
		if outcome.Code != ledger.Admitted {
			return h.denialFor(ctx, request, evaluated, outcome, groups[i+1:])
		}
	}
	return h.allowWithNotices(ctx, request, c.Object, notices)
}

func reservationsOf(evaluated []*evaluatedClaim) []ledger.Reservation {
	reservations := make([]ledger.Reservation, 0, len(evaluated))
	for _, p := range evaluated {
		reservations = append(reservations, reservationOf(p))
	}
	return reservations
}

func reservationOf(p *evaluatedClaim) ledger.Reservation {
	return ledger.Reservation{
		Key: p.Key, ReservedAt: time.Now().Unix(), Charges: p.Charges, Awaits: p.awaits, Claim: p.Intent.Encode(), Subject: p.Intent.Subject(), Actor: p.actor,
	}
}

// denialFor explains the denial of the claims on one consumer. For lack of quota it also lists the other consumers
// with a lack, so the user learns of all of them at once.
func (h *Handler) denialFor(ctx context.Context, request *admissionv1.AdmissionRequest, evaluated []*evaluatedClaim, outcome ledgerstore.Outcome, others [][]*evaluatedClaim) *admissionv1.AdmissionResponse {
	if outcome.Code != ledger.Exceeded {
		at := evaluated[outcome.FailedIndex]
		return denyNotApplicable(at.Policy, message.Impossible(at.Consumer, outcome.Code))
	}
	lacks := []lack{lackOf(evaluated, outcome.Shortages)}
	for _, other := range others {
		if !other[0].policy.Enforces() {
			continue
		}
		outcome, err := h.Store.Apply(ctx, other[0].Consumer, ledgerstore.Request{Reservations: reservationsOf(other), DryRun: ledgerstore.Dry})
		if err == nil && outcome.Code == ledger.Exceeded {
			lacks = append(lacks, lackOf(other, outcome.Shortages))
		}
	}
	return h.deny(ctx, request, lacks)
}
