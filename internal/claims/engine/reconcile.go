package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
)

// Result is the result of [Engine.Reconcile] for an object and a policy.
type Result int

const (
	// Unchanged means that the object has a claim, or needs none.
	Unchanged Result = iota
	// Adopted means that the object had no claim, and now has one for its charge.
	Adopted
	// Pending means that the claim of the object is being made or removed.
	Pending
)

// Reconcile ensures the claim of a policy for a freshly read object. It adopts an object without a claim: it charges
// the object regardless of the limits. An existing claim keeps its charges.
//
// Any error other than an [evaluator.TransientError] means that the policy is not applicable to the object.
func (e *Engine) Reconcile(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured) (Result, error) {
	// Without the list of claims every object would seem to have none.
	if err := e.Claims.WaitForSync(ctx); err != nil {
		return 0, transient(err)
	}
	o := evaluator.ObjectOf(p.Trigger, live)
	unlock, err := e.Store.LockObject(ctx, string(o.UID))
	if err != nil {
		return 0, transient(err)
	}
	defer unlock()

	state, held, err := e.stateOf(ctx, p, o)
	if err != nil {
		return 0, transient(err)
	}
	switch decideByClaim(state, p.UsesRequest()) {
	case doWait:
		return Pending, nil
	case doAdopt:
		demanded, err := e.evaluate(ctx, p, o, live)
		switch {
		case evaluator.IsTransient(err):
			return 0, transient(err)
		case demanded == nil || err != nil:
			return Unchanged, err
		}
		return e.adopt(ctx, o, demanded)
	case doSupersede:
		return Pending, transient(e.supersede(ctx, held))
	case doCheckCharge:
		return Pending, transient(e.removeUncharged(ctx, held))
	default:
		return Unchanged, nil
	}
}
