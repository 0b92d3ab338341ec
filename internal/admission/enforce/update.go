package enforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// demandChange is the change of a policy's demand for an object. A nil side means no demand.
type demandChange struct {
	policy        *catalog.Policy
	before, after *evaluator.Claim
	// awaits is what ends the reservation of the growth.
	awaits *ledger.Awaited
}

// charges are the demanded charges after the update.
func (a demandChange) charges() []ledger.Charge {
	if a.after == nil {
		return nil
	}
	return a.after.Charges
}

// growth are the charges that the update adds. For another consumer that is all of them.
func (a demandChange) growth() []ledger.Charge {
	if a.before == nil || a.after == nil || a.before.Consumer != a.after.Consumer {
		return ledger.Growth(nil, a.charges())
	}
	return ledger.Growth(a.before.Charges, a.after.Charges)
}

// lack returns the consumer's lack for the demand after the update.
func (a demandChange) lack(decision ledger.Decision) lack {
	return lack{consumer: a.after.Consumer, policies: []string{a.policy.Name}, shortages: decision.Shortages, totals: a.charges()}
}

// update answers the review of an update. The demand of a policy depends only on the object, so an update with the
// same demand does not need the ledger.
func (h *Handler) update(ctx context.Context, request *admissionv1.AdmissionRequest, forward forwardFunc) *admissionv1.AdmissionResponse {
	c, denial := h.changeIn(ctx, request)
	if denial != nil {
		return denial
	}
	if c == nil {
		return review.Allowed()
	}

	var notices notices
	changed, denial := h.compareDemand(ctx, request, c, &notices)
	if denial != nil {
		return denial
	}
	if len(changed) == 0 {
		return h.allowWithNotices(ctx, request, c.Object, notices)
	}
	if size := len(request.Object.Raw); size > h.MaxObjectBytes && isStoredAsJSON(c.Kind.Group) && slices.ContainsFunc(changed, takesMore) {
		return tooLarge(size, h.MaxObjectBytes)
	}

	consumer, ok := chargedBy(changed)
	if ok && !review.IsDryRun(request) {
		if answer := forward(consumer); answer != nil {
			return answer
		}
	}

	answer := h.decideChange(ctx, request, c, changed, notices)
	if !review.IsDryRun(request) {
		for _, a := range changed {
			h.metrics.decided(a.policy, answer)
		}
		announce(answer, request, c.Object, consumer)
	}
	return answer
}

// decideChange answers the review of an update that changes the demand of policies.
func (h *Handler) decideChange(ctx context.Context, request *admissionv1.AdmissionRequest, c *change, changed []demandChange, notices notices) *admissionv1.AdmissionResponse {
	o := engine.Object{Kind: c.Kind.GroupKind(), UID: c.UID}
	if !review.IsDryRun(request) {
		h.Engine.OpenUpdate(o.UID, request.UID) // before its first reservation, so that the end of another one does not end that
	}

	// Until every policy has decided, denials of other requests wait: this update may still give its quota back.
	tentative, conclude := h.tentativeContext(ctx, c.UID, takenFrom(changed))
	defer conclude()

	var all []taken
	for _, a := range changed {
		reserveCtx := ctx
		if takesMore(a) {
			reserveCtx = tentative
		}

		took, denial := h.reserveGrowth(reserveCtx, request, c, a, &notices)
		if denial != nil {
			h.rollback(ctx, all)
			h.unconfirmed.end(c.UID, func(r *heldRequest) bool { return r.isUpdate() && isOf(all)(r) })
			h.Engine.CloseUpdate(o.UID, request.UID)
			return denial
		}
		all = append(all, took...)
	}

	if !review.IsDryRun(request) {
		h.Engine.ExpectUpdate(o, request.UID)
	}
	return h.allowWithNotices(ctx, request, c.Object, notices)
}

// compareDemand returns the policies with a demand that the change changes, or may change.
func (h *Handler) compareDemand(ctx context.Context, request *admissionv1.AdmissionRequest, c *change, notices *notices) ([]demandChange, *admissionv1.AdmissionResponse) {
	policies := slices.DeleteFunc(slices.Clone(h.Catalog.Policies(c.Kind)), func(p *catalog.Policy) bool { return !p.FollowsUpdates() })
	before, after := h.Evaluator.Input(c.old), h.Evaluator.Input(c.new)
	if err := errors.Join(h.Evaluator.Complete(ctx, &before, c.Name.Namespace, policies), h.Evaluator.Complete(ctx, &after, c.Name.Namespace, policies)); err != nil {
		return nil, tryAgain(err)
	}

	c.input = after
	var changed []demandChange
	for _, p := range policies {
		a := demandChange{policy: p}
		var err, errBefore error
		a.after, err = h.Evaluator.Evaluate(ctx, p, c.Object, after)
		a.before, errBefore = h.Evaluator.Evaluate(ctx, p, c.Object, before)
		switch {
		case evaluator.IsTransient(err):
			if denial := h.undecidedIfEnforced(p, err, notices); denial != nil {
				return nil, denial
			}
			continue // the ledger observes it once it is known
		case err != nil && errBefore == nil && p.Enforces():
			h.failed(request, p, c.Object, err, true)
			return nil, denyNotApplicable(p.Name, err)
		case err != nil:
			if p.Enforces() {
				if denial := limitToBefore(ctx, c, p, before, after, err); denial != nil {
					h.failed(request, p, c.Object, err, true)
					return nil, denial
				}
			}
			notices.fail(p, err) // the object counts as before
			continue
		case errBefore != nil || !evaluator.Same(a.before, a.after):
			// A policy may have charged any amount for the old object if it is not applicable to it now.
			changed = append(changed, a)
		}
		if err == nil && a.after != nil {
			h.succeeded(p)
		}
	}

	slices.SortFunc(changed, func(a, b demandChange) int {
		return cmp.Or(compareModes(a.policy, b.policy), cmp.Compare(ledgerOf(a.after), ledgerOf(b.after)), cmp.Compare(a.policy.Name, b.policy.Name))
	})
	return changed, nil
}

// ledgerOf names the ledger of a claim.
func ledgerOf(c *evaluator.Claim) string {
	if c == nil {
		return ""
	}
	return naming.Ledger(c.Consumer)
}

// chargedBy returns the first consumer to charge by an update or, without one, the first to free.
func chargedBy(changed []demandChange) (quotav1alpha1.ConsumerRef, bool) {
	for _, a := range changed {
		if a.after != nil {
			return a.after.Consumer, true
		}
	}
	for _, a := range changed {
		if a.before != nil {
			return a.before.Consumer, true
		}
	}
	return quotav1alpha1.ConsumerRef{}, false
}

// takenFrom returns the consumers that an enforced update charges more.
func takenFrom(changed []demandChange) []quotav1alpha1.ConsumerRef {
	var consumers []quotav1alpha1.ConsumerRef
	for _, a := range changed {
		if takesMore(a) && !slices.Contains(consumers, a.after.Consumer) {
			consumers = append(consumers, a.after.Consumer)
		}
	}
	return consumers
}

// takesMore reports whether an enforcing policy demands more after the update than before.
func takesMore(a demandChange) bool {
	return a.policy.Enforces() && !a.before.Covers(a.after)
}

// undecidedIfEnforced rejects a request with a failed evaluation if the policy enforces, and adds a notice otherwise.
func (h *Handler) undecidedIfEnforced(p *catalog.Policy, err error, notices *notices) *admissionv1.AdmissionResponse {
	if p.Enforces() {
		return tryAgain(err)
	}
	notices.add(p, fmt.Sprintf("quota could not be decided: %v; the object counts all the same.", err))
	return nil
}
