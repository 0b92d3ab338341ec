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

// followChange does the outstanding work on an object: it makes the claims that the object lacks.
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

// concerns reports whether the object may lack the claim of a policy.
func (c *change) concerns(p *catalog.Policy) bool {
	return !p.CountsObjects() && slices.Contains(c.restored, claims.LabelValue(p.Name))
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
