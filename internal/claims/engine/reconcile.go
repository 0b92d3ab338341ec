package engine

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/policy"
)

// Result is the result of [Engine.Reconcile] for an object and a policy.
type Result int

const (
	// Unchanged means that the object has the demanded claim, or needs none.
	Unchanged Result = iota
	// Adopted means that the object had no claim, and now has a reservation for its charge.
	Adopted
	// Amended means that its claim has new charges.
	Amended
	// Pending means a change of the object in flight. The engine reconciles the object again after it.
	Pending
)

// Reconcile reconciles the claim of a freshly read object with the demand of a policy. It adopts an object without a
// claim: it charges the object regardless of the limits. If the policy follows updates, Reconcile amends the claim to
// the current demand. The claims of other policies do not change.
//
// Any error other than an [evaluator.TransientError] means that the policy is not applicable to the object.
func (e *Engine) Reconcile(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured) (Result, error) {
	// Without the list of claims every object would seem to have none.
	if err := e.Claims.WaitForSync(ctx); err != nil {
		return 0, transient(err)
	}
	result, err := e.reconcile(ctx, p, live)
	if result == Pending && err == nil && p.FollowsUpdates() {
		e.requeueLater(Object{p.Trigger.GroupKind(), live.GetUID()})
	}
	return result, err
}

// ReconcileListed is [Engine.Reconcile] for an object from a list. It does not read an object again if its cached
// claim holds the demand of the policy: for very many objects that would be a storm of requests. Concurrent changes
// reach their own handlers.
func (e *Engine) ReconcileListed(ctx context.Context, p *catalog.Policy, listed *unstructured.Unstructured) (Result, error) {
	if err := e.Claims.WaitForSync(ctx); err != nil {
		return 0, transient(err)
	}
	if p.FollowsUpdates() && e.holdsDemand(ctx, p, listed) {
		return Unchanged, nil
	}
	return e.Reconcile(ctx, p, listed)
}

// holdsDemand reports whether an object has exactly one claim of a policy, the claim holds the demand of the policy,
// and no change is in flight. It reports false on errors, and leaves them to Reconcile.
func (e *Engine) holdsDemand(ctx context.Context, p *catalog.Policy, listed *unstructured.Unstructured) bool {
	o := evaluator.ObjectOf(p.Trigger, listed)
	if e.IsChanging(o.UID) || len(e.Store.ReservationsFor(string(o.UID))) > 0 {
		return false
	}
	policy := claims.LabelValue(p.Name)
	held := slices.DeleteFunc(e.Claims.ForObject(o.UID), func(claim *claimcache.Claim) bool { return claim.Policy() != policy })
	if len(held) != 1 || held[0].State != claimcache.Granted || held[0].Deleting || held[0].Superseded {
		return false
	}
	charges, err := claims.Charges(held[0].Requests())
	if err != nil {
		return false
	}
	demanded, err := e.evaluate(ctx, p, o, listed)
	return err == nil && demanded != nil && demanded.Consumer == held[0].Consumer() && evaluator.SameCharges(charges, demanded.Charges)
}

func (e *Engine) reconcile(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured) (Result, error) {
	o := evaluator.ObjectOf(p.Trigger, live)
	unlock, err := e.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return 0, transient(err)
	}
	defer unlock()
	if p.FollowsUpdates() {
		// The object and its claim may have changed since the caller read it.
		if live, err = e.reread(ctx, p.Trigger, o); live == nil || err != nil {
			return Unchanged, transient(err)
		}
	}
	f, err := e.gather(ctx, p, o, live.GetResourceVersion())
	if err != nil || f.isPending {
		return Pending, transient(err)
	}
	next := decideByClaim(f.claimState(e.Store), p.FollowsUpdates(), p.UsesRequest())
	if next == doFindLost {
		isFound, err := e.findLost(ctx, *f.amendment)
		if isFound || err != nil {
			return Pending, transient(err)
		}
		next = decideByClaim(claimMissing, p.FollowsUpdates(), p.UsesRequest())
	}
	switch next {
	case doEvaluate:
		return e.reconcileDemand(ctx, p, o, live, f)
	case doFinish:
		_, err := e.Materialize(ctx, *f.madeFrom())
		return Pending, transient(err)
	case doSupersede:
		return Pending, transient(e.supersede(ctx, f.held))
	case doCheckCharge:
		return Pending, transient(e.removeUncharged(ctx, f.held))
	default:
		return Unchanged, nil
	}
}

// reconcileDemand reconciles an object with the current demand of the policy.
func (e *Engine) reconcileDemand(ctx context.Context, p *catalog.Policy, o evaluator.Object, live *unstructured.Unstructured, f facts) (Result, error) {
	demanded, err := e.evaluate(ctx, p, o, live)
	switch {
	case evaluator.IsTransient(err):
		return 0, transient(err) // reservations in flight stay until the demand is known
	case policy.TookTooLong(err):
		return 0, err
	}
	next := decideByDemand(f.held != nil, f.demandOf(demanded, err))
	if next == doRetain {
		_, errCancel := e.cancelReserved(ctx, f.reserved, nil)
		return 0, errors.Join(err, e.retain(ctx, f.held, f.amendment), errCancel)
	}
	isMade, err := e.cancelReserved(ctx, f.reserved, func(r ledgerstore.InFlight) bool {
		isTaken := f.held == nil || demanded != nil && demanded.Consumer != f.held.Spec.ConsumerRef
		return isTaken && demanded != nil && r.Consumer == demanded.Consumer
	})
	if err != nil {
		return 0, err
	}
	if isMade {
		return Pending, nil // the next run decides the outcome for that claim, once the cache has it
	}
	return e.apply(ctx, next, p, live, demanded, f)
}

// apply applies the action for the current demand of a policy. It changes no claim and no ledger if the object has
// another demand by now.
func (e *Engine) apply(ctx context.Context, next action, p *catalog.Policy, live *unstructured.Unstructured, demanded *evaluator.Claim, f facts) (Result, error) {
	switch next {
	case doAdopt:
		return e.adopt(ctx, p, live, demanded)
	case doSupersede:
		if exists, err := e.confirm(ctx, p, live, demanded); !exists || err != nil {
			return Pending, transient(err)
		}
		return Pending, transient(e.supersede(ctx, f.held))
	case doAmend:
		return e.amend(ctx, p, live, demanded, f)
	default:
		return Unchanged, nil
	}
}
