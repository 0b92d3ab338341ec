package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/evaluator"
)

// followChange reconciles the claims of an object with the current demand of policies. While an admitted update may
// still come, its reservation stays.
func (e *Engine) followChange(ctx context.Context, o Object) error {
	change := cmp.Or(e.changes.of(o.UID), &change{})
	isPending, err := e.reconcileAll(ctx, o, change)
	if !isPending && err == nil || time.Since(change.since) >= pendingRetry {
		for _, consumer := range change.freed {
			e.Store.ReleaseDone(consumer, releaseOf(o.UID))
		}
	}
	if err != nil {
		return err
	}
	if isPending {
		e.queue.AddAfter(o, pendingRetry)
		return nil
	}
	e.changes.end(o.UID, change)
	return nil
}

// reconcileAll reconciles an object with the policies of a change. An object may rightly lack the claim of another
// policy, because it may meet the conditions of that policy only since its creation.
func (e *Engine) reconcileAll(ctx context.Context, o Object, change *change) (isPending bool, err error) {
	if !e.Claims.HasSynced() {
		return true, nil // other objects must not wait for the list
	}
	versions := map[schema.GroupVersionKind]*unstructured.Unstructured{}
	var errs []error
	for _, p := range e.Catalog.PoliciesOf(o.Kind) {
		if !change.concerns(p) {
			continue
		}
		live, known := versions[p.Trigger]
		if !known {
			if live, err = e.read(ctx, p.Trigger, o); err != nil {
				return false, err
			}
			versions[p.Trigger] = live
		}
		if live == nil {
			continue // it is deleted, and its release returns its charges
		}
		mayCome := change.base != "" && claims.MayChange(live.GetResourceVersion(), change.base)
		if mayCome && time.Since(change.since) < e.Store.ReservationLifetime && !e.updates.areOver(o.UID) {
			return true, nil
		}
		result, err := e.Reconcile(ctx, p, live)
		isPending = isPending || result == Pending
		var transient *evaluator.TransientError
		switch {
		case errors.As(err, &transient):
			errs = append(errs, fmt.Errorf("apply ClaimCreationPolicy %s to %s %s: %w", p.Name, o.Kind.Kind, live.GetName(), err))
		case err != nil:
			e.Log.Error(err, "the policy can no longer be applied to the object; its claim stays unchanged",
				"policy", p.Name, "kind", o.Kind.String(), "namespace", live.GetNamespace(), "name", live.GetName())
		}
	}
	return isPending, errors.Join(errs...)
}

// concerns reports whether the claim of a policy may have to follow a change.
func (c *change) concerns(p *catalog.Policy) bool {
	return !p.CountsObjects && (p.FollowsUpdates() || slices.Contains(c.restored, claims.LabelValue(p.Name)))
}

// read returns an object in one version, or nil if it was deleted.
func (e *Engine) read(ctx context.Context, kind schema.GroupVersionKind, o Object) (*unstructured.Unstructured, error) {
	name, ok := e.Objects.Name(o.Kind, o.UID)
	if !ok {
		return nil, nil
	}
	return e.reread(ctx, kind, evaluator.Object{Kind: kind, Name: name, UID: o.UID})
}

// reread reads an object in one version, and returns nil if it was deleted.
func (e *Engine) reread(ctx context.Context, kind schema.GroupVersionKind, o evaluator.Object) (*unstructured.Unstructured, error) {
	resource, served, err := e.Kinds.VersionedResourceFor(ctx, kind)
	if err != nil || !served {
		return nil, err
	}
	live, err := e.Live.Resource(resource).Namespace(o.Name.Namespace).Get(ctx, o.Name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", o.Kind.Kind, o.Name, err)
	case live.GetUID() != o.UID:
		return nil, nil
	default:
		return live, nil
	}
}

// confirm reads an object again. Call it after reading the claim: otherwise a deletion or a later version of the object
// may be why the claim is missing or different. confirm reports false if the object is gone. It fails with a conflict
// if the object has another demand than in the version before, live. Without UPDATE in the policy, that does not
// matter.
func (e *Engine) confirm(ctx context.Context, p *catalog.Policy, live *unstructured.Unstructured, demanded *evaluator.Claim) (exists bool, err error) {
	o := evaluator.ObjectOf(p.Trigger, live)
	if !p.FollowsUpdates() {
		return e.Objects.IsAlive(ctx, o.Kind.GroupKind(), o.Name, o.UID)
	}
	outdated := transient(apierrors.NewConflict(schema.GroupResource{Group: o.Kind.Group, Resource: o.Kind.Kind}, o.Name.Name, errors.New("it has changed meanwhile")))
	now, err := e.reread(ctx, p.Trigger, o)
	if err != nil {
		return false, err
	}
	if now == nil {
		if exists, err = e.Objects.IsAlive(ctx, o.Kind.GroupKind(), o.Name, o.UID); exists {
			return false, outdated // nobody serves this version of its kind now
		}
		return false, err
	}
	if now.GetResourceVersion() == live.GetResourceVersion() {
		return true, nil
	}
	again, err := e.evaluate(ctx, p, o, now)
	switch {
	case evaluator.IsTransient(err):
		return false, err
	case err != nil || !evaluator.Same(again, demanded):
		return false, outdated // the next run decides by this version
	default:
		return true, nil
	}
}

// evaluate evaluates a policy for an object.
func (e *Engine) evaluate(ctx context.Context, p *catalog.Policy, o evaluator.Object, live *unstructured.Unstructured) (*evaluator.Claim, error) {
	in := e.Evaluator.Input(live.Object)
	if err := e.Evaluator.Complete(ctx, &in, o.Name.Namespace, []*catalog.Policy{p}); err != nil {
		return nil, err
	}
	return e.Evaluator.Evaluate(ctx, p, o, in)
}

// pendingRetry is the interval of checks on a change in flight.
const pendingRetry = time.Second
