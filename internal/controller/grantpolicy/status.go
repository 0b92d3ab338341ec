package grantpolicy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
	"github.com/bursar/bursar/internal/kube/progress"
)

// namesShown is how many control planes or objects a message names.
const namesShown = 3

// report writes the status of a policy, with the reasons why it is not effective.
func (c *Controller) report(ctx context.Context, object *quotav1alpha1.GrantCreationPolicy, problems []string) error {
	ready := c.ready(object, problems)
	if ready == nil {
		return nil // an event follows the list of the objects
	}
	updated := object.DeepCopy()
	conditions := &updated.Status.Conditions

	t := c.tallyOf(object.UID)
	if ready.Status == metav1.ConditionTrue {
		ready.Message += t.exceptions()
	}
	ready.Type, ready.ObservedGeneration = quotav1alpha1.ConditionReady, object.Generation
	apimeta.SetStatusCondition(conditions, *ready)

	var lost *metav1.Condition
	if object.Spec.Target.ParentContext == nil {
		apimeta.RemoveStatusCondition(conditions, quotav1alpha1.ConditionParentContextReady)
	} else {
		parent := c.parentReady(object, ready)
		parent.Type, parent.ObservedGeneration = quotav1alpha1.ConditionParentContextReady, object.Generation
		if ready.Status == metav1.ConditionTrue && isNewProblem(*conditions, &parent) {
			lost = &parent
		}
		apimeta.SetStatusCondition(conditions, parent)
	}
	state, cause := c.progressOf(object, *conditions)
	progress.Set(conditions, state, cause)

	updated.Status.ObservedGeneration = object.Generation
	updated.Status.Gives = message.Allowances(c.Catalog, object.Spec.Target.ResourceGrantTemplate.Spec.Allowances)
	updated.Status.Grants = t.grants
	if equality.Semantic.DeepEqual(object.Status, updated.Status) {
		return nil
	}
	// A conflict means that the result is out of date. An event follows its newer version.
	if err := c.Client.Status().Update(ctx, updated); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the status of GrantCreationPolicy %s: %w", object.Name, err)
	}
	if lost != nil {
		c.recordEvent(object, nil, warning, quotav1alpha1.EventParentContextNotReady, "Connect", "%s", lost.Message)
	}
	return nil
}

// progressOf returns how far a policy is from its effect, and the condition that explains it. A disabled policy has the
// effect that its author asked for.
func (c *Controller) progressOf(object *quotav1alpha1.GrantCreationPolicy, conditions []metav1.Condition) (progress.State, metav1.Condition) {
	for _, conditionType := range []string{quotav1alpha1.ConditionReady, quotav1alpha1.ConditionParentContextReady} {
		condition := apimeta.FindStatusCondition(conditions, conditionType)
		switch {
		case !object.IsEnabled() || condition == nil || condition.Status == metav1.ConditionTrue:
		case condition.Type == quotav1alpha1.ConditionReady && c.isInvalid(object):
			return progress.Stalled, *condition
		default:
			return progress.Waiting, *condition
		}
	}
	return progress.Reached, metav1.Condition{}
}

// isInvalid reports whether the spec of a policy has errors.
func (c *Controller) isInvalid(object *quotav1alpha1.GrantCreationPolicy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.policies[object.UID]
	return s != nil && len(s.errs) > 0
}

// isNewProblem reports whether a condition is False, and differs in status or reason from the one of its type.
func isNewProblem(conditions []metav1.Condition, now *metav1.Condition) bool {
	before := apimeta.FindStatusCondition(conditions, now.Type)
	return now.Status == metav1.ConditionFalse && (before == nil || before.Status != now.Status || before.Reason != now.Reason)
}

// recount queues a count of a policy's grants soon.
func (c *Controller) recount(policy types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.policies[policy]; s != nil {
		c.policyQueue.AddAfter(s.object.Name, countDelay)
	}
}

// tally counts the objects of a policy with a grant, with a failure, and with neither because their control plane does
// not answer; why is an example of a failure.
type tally struct {
	grants, failed, waiting int64
	why                     string
}

// exceptions returns the end of the sentence that every matching object gets a grant.
func (t tally) exceptions() string {
	var text string
	if t.waiting > 0 {
		text += fmt.Sprintf("; %d of them wait for their control plane, see the condition ParentContextReady", t.waiting)
	}
	if t.failed > 0 {
		text += fmt.Sprintf("; %d fail to get one: %s", t.failed, t.why)
	}
	return text
}

func (c *Controller) tallyOf(policy types.UID) (t tally) {
	failed, granted := map[types.UID]string{}, map[types.UID]bool{}
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.controlPlanes))
	if s := c.policies[policy]; s != nil && s.mode != modeDelete {
		for object, o := range s.outcomes {
			switch p := c.controlPlanes[o.controlPlane]; {
			case o.grant == nil:
			case p.mayHold(key{policy, object}):
				granted[object] = true
			default:
				t.waiting++
			}
			if o.err != nil {
				failed[object] = o.err.Error()
			}
		}
	}
	c.mu.Unlock()
	for _, p := range all {
		for object, why := range p.failures(policy) {
			if granted[object] {
				failed[object] = why
				delete(granted, object)
			}
		}
	}
	t.grants, t.failed = int64(len(granted)), int64(len(failed))
	if objects := slices.Sorted(maps.Keys(failed)); len(objects) > 0 {
		t.why = failed[objects[0]]
	}
	return t
}

// ready returns the condition Ready, or nil while it is unknown.
func (c *Controller) ready(object *quotav1alpha1.GrantCreationPolicy, problems []string) *metav1.Condition {
	if !object.IsEnabled() {
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonPolicyDisabled,
			Message: "the policy is paused by spec.enabled; its grants stay as they are"}
	}
	kind := triggerOf(object)
	if len(problems) == 0 {
		c.mu.Lock()
		f := c.followers[kind]
		c.mu.Unlock()
		if f == nil {
			return nil
		}
		if err := f.failure(); err != nil {
			problems = []string{fmt.Sprintf("objects of kind %s cannot be listed: %v", kind.GroupKind(), err)}
		} else if !f.hasSynced() {
			return nil
		}
	}
	if len(problems) > 0 {
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonValidationFailed, Message: strings.Join(problems, "; ")}
	}
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonPolicyReady,
		Message: fmt.Sprintf("every %s that meets the conditions gets a grant", kind.GroupKind())}
}

// needs are the other control planes for a policy's matching objects.
type needs struct {
	// unresolved are the errors of unknown control plane names.
	unresolved []string
	// unregistered, invalid, unreachable and pending name control planes.
	unregistered, invalid, unreachable, pending []string
	count                                       int
	unevaluated                                 int
}

// needsOf collects the needs of a policy's objects.
func (c *Controller) needsOf(object *quotav1alpha1.GrantCreationPolicy) needs {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n needs
	s := c.policies[object.UID]
	if s == nil {
		return n
	}
	n.unevaluated = len(s.unevaluated)
	refs := map[remote.Ref]bool{}
	for _, o := range s.outcomes {
		if o.unresolved != nil && len(n.unresolved) < namesShown {
			n.unresolved = append(n.unresolved, o.unresolved.Error())
		}
		if o.matches && o.unresolved == nil && !o.controlPlane.IsLocal() {
			refs[o.controlPlane] = true
		}
	}
	n.count = len(refs)
	for ref := range refs {
		p := c.controlPlanes[ref]
		if p == nil {
			n.unregistered = append(n.unregistered, ref.String())
			continue
		}
		isContacted, problem := p.state()
		switch {
		case p.invalid != nil:
			n.invalid = append(n.invalid, fmt.Sprintf("%s (Secret %s): %v", ref, p.secret, p.invalid))
		case problem != nil:
			n.unreachable = append(n.unreachable, fmt.Sprintf("%s (Secret %s): %v", ref, p.secret, problem))
		case !isContacted:
			n.pending = append(n.pending, ref.String())
		}
	}
	for _, names := range [][]string{n.unresolved, n.unregistered, n.invalid, n.unreachable, n.pending} {
		slices.Sort(names)
	}
	return n
}

// parentReady returns the condition ParentContextReady.
func (c *Controller) parentReady(object *quotav1alpha1.GrantCreationPolicy, ready *metav1.Condition) metav1.Condition {
	if ready.Status != metav1.ConditionTrue {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: ready.Reason, Message: "the policy is not ready, see the condition Ready"}
	}
	n := c.needsOf(object)
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	switch {
	case len(n.unresolved) > 0:
		return no(quotav1alpha1.ReasonParentContextUnresolved, "the control plane of some objects is not known: "+n.unresolved[0]+"; correct the objects or the expression")
	case len(n.unregistered) > 0:
		return no(quotav1alpha1.ReasonControlPlaneNotRegistered, fmt.Sprintf(
			"no Secret in namespace %s registers %s; create one with the labels %s, %s and %s and a kubeconfig", c.SystemNamespace,
			firstFew(n.unregistered), quotav1alpha1.LabelControlPlaneGroup, quotav1alpha1.LabelControlPlaneKind, quotav1alpha1.LabelControlPlaneName))
	case len(n.invalid) > 0:
		return no(quotav1alpha1.ReasonControlPlaneInvalid, firstFew(n.invalid)+"; correct the Secret")
	case len(n.unreachable) > 0:
		return no(quotav1alpha1.ReasonControlPlaneUnreachable, firstFew(n.unreachable)+"; grants there are brought up to date once it answers")
	case len(n.pending) > 0:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: quotav1alpha1.ReasonControlPlanePending, Message: firstFew(n.pending) + " has not answered yet"}
	case n.unevaluated > 0:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: quotav1alpha1.ReasonControlPlanePending, Message: "not all objects have been evaluated yet"}
	}
	message := "no object needs another control plane now"
	if n.count > 0 {
		message = "all needed control planes are registered and answer"
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonParentContextReady, Message: message}
}

// firstFew joins the first names, and counts the rest.
func firstFew(names []string) string {
	if len(names) <= namesShown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namesShown], ", "), len(names)-namesShown)
}

// secretOf returns a reference to the Secret of a control plane.
func (c *Controller) secretOf(p *controlPlane) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: c.SystemNamespace, Name: p.secretName()}
}

func (p *controlPlane) secretName() string {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	return p.secret
}
