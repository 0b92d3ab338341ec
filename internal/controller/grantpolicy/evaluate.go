package grantpolicy

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

// wakeDelay is how long further news about a policy is waited for.
const wakeDelay = 50 * time.Millisecond

// countDelay is how long the number of a policy's grants waits for more to come or go, before it is shown.
const countDelay = time.Second

// evaluateAllLocked has every object of a policy's kind evaluated.
func (c *Controller) evaluateAllLocked(s *policyState) {
	f := c.followers[s.trigger()]
	if s.mode != modeApply || f == nil {
		return
	}
	for _, object := range f.informer.GetStore().List() {
		if o, ok := object.(metav1.Object); ok {
			c.enqueueEvaluationLocked(key{s.uid(), o.GetUID()})
		}
	}
	for uid := range s.outcomes {
		c.enqueueEvaluationLocked(key{s.uid(), uid})
	}
}

func (c *Controller) enqueueEvaluationLocked(k key) {
	s := c.policies[k.policy]
	if s == nil {
		return
	}
	if o := s.outcomes[k.object]; o == nil || o.generation != s.object.Generation {
		s.unevaluated[k.object] = struct{}{}
	}
	c.evaluations.Forget(k)
	c.evaluations.Add(k)
}

// evaluate finds out what a policy asks for an object, and has the control planes concerned do it.
func (c *Controller) evaluate(ctx context.Context, k key) error {
	s, policy, f, err := c.begin(k.policy)
	if f == nil || err != nil {
		return err
	}
	object := f.get(k.object)
	if object == nil && !f.hasSynced() {
		return nil
	}
	var next *outcome
	switch {
	case object == nil:
	case goesLast(object):
		next = &outcome{generation: policy.Generation}
	default:
		began := time.Now()
		next = c.outcomeFor(ctx, s, policy, object)
		c.mu.Lock()
		s.throttle.end(time.Now(), time.Since(began))
		c.mu.Unlock()
	}
	before, ok := c.storeOutcome(s, k, next)
	if !ok {
		return nil // the policy has changed, and is evaluated again
	}
	c.metrics.evaluated(next)
	if !hasFailed(next) {
		return nil
	}
	if !hasFailed(before) || before.err.Error() != next.err.Error() {
		c.recordObjectEvent(policy, object, warning, reasonEvaluationFailed, "Evaluate", "%s %s gets no grant or keeps the one that it has: %v",
			object.GetKind(), cache.MetaObjectToName(object), next.err)
	}
	return next.err
}

// begin returns what an evaluation of an active policy reads: its state, the policy and the follower of its kind. The follower
// is nil if there is nothing to evaluate. The error is errThrottled while the policy rests.
func (c *Controller) begin(policy types.UID) (*policyState, *quotav1alpha1.GrantCreationPolicy, *follower, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.policies[policy]
	if s == nil || s.mode != modeApply {
		return nil, nil, nil, nil
	}
	if !s.throttle.begin(time.Now()) {
		return nil, nil, nil, errThrottled
	}
	return s, s.object, c.followers[s.trigger()], nil
}

// settle keeps an outcome, and returns the one before it. It returns false if the state of the
// policy is not current any more.
func (c *Controller) storeOutcome(s *policyState, k key, next *outcome) (*outcome, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policies[k.policy] != s {
		return nil, false
	}
	before := s.outcomes[k.object]
	if next == nil {
		delete(s.outcomes, k.object)
	} else {
		s.outcomes[k.object] = next
	}
	_, first := s.unevaluated[k.object]
	delete(s.unevaluated, k.object)
	if s.object.Spec.Target.ParentContext != nil && (first && len(s.unevaluated) == 0 || !sameNeeds(before, next)) {
		c.wakeLocked(k.policy)
	}
	if hasGrant(before) != hasGrant(next) || hasFailed(before) != hasFailed(next) {
		c.policyQueue.AddAfter(s.object.Name, countDelay)
	}
	c.enqueueGrantLocked(k, next)
	return before, true
}

// enqueueGrantLocked has the control planes write or delete the grant of an object that need to, and connects to the one
// that the grant goes to.
func (c *Controller) enqueueGrantLocked(k key, next *outcome) {
	for _, p := range c.controlPlanes {
		isNeeded := hasGrant(next) && next.controlPlane == p.ref
		if isNeeded || p.holdsGrant(k) {
			p.queue.Add(k)
		}
		if isContacted, _ := p.state(); isNeeded && !isContacted {
			p.requestCompare()
		}
	}
}

// sameNeeds tells whether two outcomes say the same of the control plane that an object needs.
func sameNeeds(a, b *outcome) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.matches == b.matches && a.controlPlane == b.controlPlane && (a.unresolved == nil) == (b.unresolved == nil)
}

func hasFailed(o *outcome) bool { return o != nil && o.err != nil }

func hasGrant(o *outcome) bool { return o != nil && o.grant != nil }

// judge applies a policy to an object.
func (c *Controller) outcomeFor(ctx context.Context, s *policyState, policy *quotav1alpha1.GrantCreationPolicy, object *unstructured.Unstructured) *outcome {
	o := &outcome{generation: policy.Generation}
	if o.matches, o.err = s.compiled.Matches(ctx, object.Object); o.err != nil || !o.matches {
		return o
	}
	if parent := policy.Spec.Target.ParentContext; parent != nil {
		name, err := s.compiled.ParentName(ctx, object.Object)
		if err != nil {
			o.err, o.unresolved = err, err
			return o
		}
		o.controlPlane = remote.Ref{Group: parent.APIGroup, Kind: parent.Kind, Name: name}
	}
	grant, err := s.compiled.Render(object.Object)
	if err != nil {
		o.err = err
		return o
	}
	complete(grant, policy, object, c.SystemNamespace, o.controlPlane)
	if o.err = c.checkGrant(grant, o.controlPlane.IsLocal()); o.err == nil {
		o.grant = grant
	}
	return o
}

// check tells why a grant may not be made. What is registered in another control plane is for that
// one to say.
func (c *Controller) checkGrant(grant *quotav1alpha1.ResourceGrant, local bool) error {
	if errs := c.Rules.ValidateGrant(grant); len(errs) > 0 {
		return fmt.Errorf("the grant would not be valid: %w", errs.ToAggregate())
	}
	if local {
		return c.Catalog.CheckGrant(&grant.Spec)
	}
	return nil
}

// goesLast tells whether an object is being deleted after what it owns: then its grant goes now,
// and would be deleted again if it were made again.
func goesLast(object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil && slices.Contains(object.GetFinalizers(), metav1.FinalizerDeleteDependents)
}
