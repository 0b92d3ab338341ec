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

// wakeDelay is how long an event about a policy waits for more.
const wakeDelay = 50 * time.Millisecond

// countDelay is how long a change in a policy's number of grants waits for more before its publication.
const countDelay = time.Second

// evaluateAllLocked queues every object of a policy's kind.
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

// evaluate computes the outcome of a policy for an object, and queues it for the control planes concerned.
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
		return nil // the policy has changed, and another evaluation follows
	}
	c.metrics.evaluated(next)
	if !hasFailed(next) {
		return nil
	}
	if !hasFailed(before) || before.err.Error() != next.err.Error() {
		c.recordObjectEvent(policy, object, warning, quotav1alpha1.EventEvaluationFailed, "Evaluate", "%s %s gets no grant, or keeps its existing one: %v",
			object.GetKind(), cache.MetaObjectToName(object), next.err)
	}
	return next.err
}

// begin returns the input of an evaluation of an active policy: its state, the policy and the follower of its kind. The
// follower is nil if there is nothing to evaluate. The error is errThrottled while the policy has to rest.
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

// storeOutcome stores an outcome, and returns the previous one. It returns false if the state of the policy is no
// longer current.
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

// enqueueGrantLocked queues the key for the control planes with a write or deletion of the grant of an object to do,
// and connects to the desired one.
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

// sameNeeds reports whether two outcomes need the same control plane.
func sameNeeds(a, b *outcome) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.matches == b.matches && a.controlPlane == b.controlPlane && (a.unresolved == nil) == (b.unresolved == nil)
}

func hasFailed(o *outcome) bool { return o != nil && o.err != nil }

func hasGrant(o *outcome) bool { return o != nil && o.grant != nil }

// outcomeFor applies a policy to an object.
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

// checkGrant returns the reason for not creating a grant. A remote control plane checks its own registrations.
func (c *Controller) checkGrant(grant *quotav1alpha1.ResourceGrant, local bool) error {
	if errs := c.Rules.ValidateGrant(grant); len(errs) > 0 {
		return fmt.Errorf("the grant would not be valid: %w", errs.ToAggregate())
	}
	if local {
		return c.Catalog.CheckGrant(&grant.Spec)
	}
	return nil
}

// goesLast reports whether an object disappears only after its dependents. The garbage collector deletes its grant now,
// and would delete a new one again.
func goesLast(object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil && slices.Contains(object.GetFinalizers(), metav1.FinalizerDeleteDependents)
}
