package enforce

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/policy"
)

// awaitedBy returns what ends a reservation by a policy that counts objects: the object in a version after the one
// under review, base, which is empty for a create.
func (h *Handler) awaitedBy(p *catalog.Policy, o evaluator.Object, base string, in policy.Input) (*ledger.Awaited, error) {
	policies := ledger.Version(h.Catalog.PolicyVersion(p.Name)) // of this generation, or later
	awaits := &ledger.Awaited{Kind: inventory.NameOf(p.Trigger), ID: string(o.UID), Policies: policies}
	if base != "" {
		after, err := ledger.ParseVersion(base)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o, err)
		}
		awaits.After = after
	}
	if metadata, is := in.NamespaceObject["metadata"].(map[string]any); is && p.UsesNamespace() {
		text, _ := metadata["resourceVersion"].(string)
		version, err := ledger.ParseVersion(text)
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", o.Name.Namespace, err)
		}
		awaits.Namespaces = version
	}
	return awaits, nil
}

// reserveGrowth reserves what an update adds to the demand of its object. The ledger observes by itself what an update
// frees.
func (h *Handler) reserveGrowth(ctx context.Context, request *admissionv1.AdmissionRequest, c *change, a demandChange, notices *notices) ([]taken, *admissionv1.AdmissionResponse) {
	growth := a.growth()
	if len(growth) == 0 {
		return nil, nil
	}
	var err error
	if a.awaits, err = h.awaitedBy(a.policy, c.Object, c.base, c.input); err != nil {
		return nil, tryAgain(err)
	}
	if !a.policy.Enforces() {
		h.noticeGrowth(ctx, c, a, growth, notices)
		return nil, nil
	}

	outcome, err := h.reserveGrowthSparing(ctx, request, c, a, growth)
	consumer := a.after.Consumer
	switch decision := outcome.Single(); {
	case isTooMuchHeld(err):
		return nil, denyTooMuchHeld(requesterOf(request.UserInfo, request.Namespace), consumer, growth, err)
	case err != nil:
		return nil, tryAgain(err)
	case decision.Code == ledger.Exceeded && h.hasChanged(a):
		return nil, tryAgain(fmt.Errorf("%s has changed meanwhile", c.Object))
	case decision.Code == ledger.Exceeded:
		return nil, h.deny(ctx, request, []lack{a.lack(decision)})
	case decision.Code != ledger.Admitted:
		return nil, denyNotApplicable(a.policy.Name, message.Impossible(consumer, decision.Code))
	case decision.Existing || review.IsDryRun(request):
		return nil, nil
	default:
		key := growthOf(c, a, growth).Key
		took := taken{Consumer: consumer, Key: key, Sequence: decision.Sequence, Before: outcome.RaisedFrom(key)}
		h.Engine.Reserved(c.UID, took)
		return []taken{took}, nil
	}
}

// hasChanged reports whether the object under review has a later version by now: then the API server refuses the
// update.
func (h *Handler) hasChanged(a demandChange) bool {
	return h.Inventory != nil && h.Inventory.HasSeen(a.awaits)
}

// reserveGrowthSparing reserves growth, unless the requester would then hold more than it leaves to others. It waits a
// little for earlier requests of the requester to have their effect.
func (h *Handler) reserveGrowthSparing(ctx context.Context, request *admissionv1.AdmissionRequest, c *change, a demandChange, growth []ledger.Charge) (ledgerstore.Outcome, error) {
	consumer := a.after.Consumer
	asked := ledgerstore.Request{Reservations: []ledger.Reservation{growthOf(c, a, growth)}, TakesOver: true}
	if review.IsDryRun(request) {
		asked.DryRun = ledgerstore.Dry
		return h.Store.Apply(ctx, consumer, asked)
	}

	until := waitUntil(ctx)
	for {
		held, spare, open := h.trackRequest(requesterOf(request.UserInfo, request.Namespace), consumer, c.Object, a.policy.Name, growth)
		asked.Spare = spare
		outcome, err := h.Store.Apply(ctx, consumer, asked)
		h.confirmTracked(held, err == nil && outcome.Code == ledger.Admitted)
		switch {
		case !errors.Is(err, ledgerstore.ErrTooMuchHeld):
			return outcome, err
		case open == 0:
			return outcome, errFailedLately
		case !h.waitForOwn(ctx, held.request.share, open, until):
			return outcome, err
		}
	}
}

// growthOf returns the reservation for the growth of an object.
func growthOf(c *change, a demandChange, growth []ledger.Charge) ledger.Reservation {
	intent := claims.Intent{Kind: c.Kind, Object: c.Name}
	return ledger.Reservation{
		Key:        ledgerstore.UpdateKey(claims.LabelValue(a.policy.Name), string(c.UID), c.base),
		ReservedAt: time.Now().Unix(), Charges: growth, Awaits: a.awaits, Claim: intent.Encode(), Subject: intent.Subject(), Actor: c.actor,
	}
}

// noticeGrowth adds a notice if the growth of an object exceeds a limit that is not enforced. The ledger observes it
// once it has happened.
func (h *Handler) noticeGrowth(ctx context.Context, c *change, a demandChange, growth []ledger.Charge, notices *notices) {
	outcome, err := h.Store.Apply(ctx, a.after.Consumer, ledgerstore.Request{
		Reservations: []ledger.Reservation{growthOf(c, a, growth)}, Overdraft: true, DryRun: ledgerstore.DryLikely,
	})
	switch decision := outcome.Single(); {
	case err != nil:
		notices.add(a.policy, fmt.Sprintf("quota could not be decided: %v; the object counts all the same.", err))
	case decision.Code != ledger.Admitted:
		notices.add(a.policy, notApplicable(a.policy.Name, message.Impossible(a.after.Consumer, decision.Code)))
	case len(decision.Shortages) > 0:
		notices.lack(a.policy, a.lack(decision))
	}
}
