package grantpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/permission"
	"github.com/bursar/bursar/internal/policy"
)

// cleanupRetryInterval is the delay until the next reconcile of a policy with undeletable grants.
const cleanupRetryInterval = 10 * time.Second

// reconcile updates the state, the finalizers and the status of a policy. It adds the finalizers before the first
// grant.
func (c *Controller) reconcile(ctx context.Context, name string) error {
	object := &quotav1alpha1.GrantCreationPolicy{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, object)
	if apierrors.IsNotFound(err) {
		c.removePolicy(name)
		return nil
	}
	if err != nil {
		return err
	}
	// A deleted or paused policy creates no grants and needs no further finalizers.
	if added := finalizersToAdd(object); len(added) > 0 {
		object = object.DeepCopy()
		object.Finalizers = append(object.Finalizers, added...)
		return c.update(ctx, object) // an event follows
	}
	state := &policyState{object: object}
	problems, err := c.inspect(ctx, state)
	if err != nil {
		return err
	}
	c.setPolicy(state)
	if object.DeletionTimestamp == nil {
		if err := c.report(ctx, object, problems); err != nil {
			return err
		}
	}
	return c.removeFinalizers(ctx, object)
}

// finalizersToAdd returns the missing finalizers of a policy.
func finalizersToAdd(object *quotav1alpha1.GrantCreationPolicy) []string {
	if object.DeletionTimestamp != nil || !object.IsEnabled() {
		return nil
	}
	var desired []string
	if !slices.Contains(object.Finalizers, quotav1alpha1.FinalizerGrants) {
		desired = append(desired, quotav1alpha1.FinalizerGrants)
	}
	if object.Spec.Target.ParentContext != nil && !slices.Contains(object.Finalizers, quotav1alpha1.FinalizerParentGrants) {
		desired = append(desired, quotav1alpha1.FinalizerParentGrants)
	}
	return desired
}

// update stores a policy. After a conflict, an event with its newer version follows.
func (c *Controller) update(ctx context.Context, object *quotav1alpha1.GrantCreationPolicy) error {
	if err := c.Client.Update(ctx, object); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update the finalizers of GrantCreationPolicy %s: %w", object.Name, err)
	}
	return nil
}

// inspect sets the mode of a policy, and returns all reasons why it is not effective.
func (c *Controller) inspect(ctx context.Context, state *policyState) ([]string, error) {
	object := state.object
	switch {
	case object.DeletionTimestamp != nil:
		state.mode = modeDelete
		return nil, nil
	case !object.IsEnabled():
		state.mode = modeRetain
		return nil, nil
	}
	kind := triggerOf(object)
	resource, served, err := c.Kinds.VersionedResourceFor(ctx, kind)
	if err != nil {
		return nil, err
	}
	problems := c.policyProblems(state)
	if !served {
		problems = append(problems, notServed(kind))
		groupState, _, err := c.Kinds.StateOf(ctx, kind.GroupKind())
		if err != nil {
			return nil, err
		}
		if groupState == discoverycache.Undefined && c.wasServed(object) {
			state.mode = modeDelete // no objects are left, and so no reason for grants
		}
		return problems, nil
	}
	reason, err := c.Permission.Follow(ctx, resource)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		problems = append(problems, reason)
		c.policyQueue.AddAfter(object.Name, permission.RecheckInterval) // no event reports new permissions
	}
	if len(problems) == 0 {
		state.mode, state.resource = modeApply, resource
	}
	return problems, nil
}

// policyProblems compiles a policy into its state, and returns all errors of its spec and registrations.
func (c *Controller) policyProblems(state *policyState) []string {
	var problems []string
	state.compiled, state.errs = c.compile(state.object)
	if len(state.errs) > 0 {
		problems = append(problems, state.errs.ToAggregate().Error())
	}
	problems = append(problems, registrationProblems(c.Catalog, state.object)...)
	if err := c.Catalog.CheckNew(grantedTypes(state.object)...); err != nil && !c.wasServed(state.object) {
		problems = append(problems, err.Error())
	}
	return problems
}

// wasServed reports whether the API server ever served the kind in a policy since the policy names it: then its objects
// are gone. A never served kind may be a typing error, and must not delete the grants of another kind's objects.
func (c *Controller) wasServed(object *quotav1alpha1.GrantCreationPolicy) bool {
	c.mu.Lock()
	before := c.policies[object.UID]
	c.mu.Unlock()
	if before != nil && before.object.Generation == object.Generation && before.mode != modeRetain {
		return true
	}
	ready := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.Generation
}

// compile returns the compiled policy, or its errors. It compiles a generation only once.
func (c *Controller) compile(object *quotav1alpha1.GrantCreationPolicy) (*policy.GrantPolicy, field.ErrorList) {
	c.mu.Lock()
	before := c.policies[object.UID]
	isKnown := before != nil && before.object.Generation == object.Generation
	c.mu.Unlock()
	if isKnown && (before.compiled != nil || len(before.errs) > 0) {
		return before.compiled, before.errs
	}
	return policy.CompileGrant(object)
}

func notServed(kind schema.GroupVersionKind) string {
	return fmt.Sprintf("kind %s in version %s is not served by this API server", kind.GroupKind(), kind.GroupVersion())
}

// registrationProblems returns the reasons why the registrations do not allow the grants of a policy. Registrations of
// another control plane are unknown here, and the check of templates comes with each object.
func registrationProblems(registrations Registrations, object *quotav1alpha1.GrantCreationPolicy) []string {
	if object.Spec.Target.ParentContext != nil {
		return nil
	}
	spec := object.Spec.Target.ResourceGrantTemplate.Spec
	if isTemplate := strings.Contains(spec.ConsumerRef.APIGroup+spec.ConsumerRef.Kind, "{{"); isTemplate {
		return nil
	}
	if err := registrations.CheckGrant(&spec); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// grantedTypes returns the resource types of a policy's grants in this control plane.
func grantedTypes(object *quotav1alpha1.GrantCreationPolicy) []string {
	if object.Spec.Target.ParentContext != nil {
		return nil
	}
	return object.Spec.Target.ResourceGrantTemplate.Spec.ResourceTypes()
}

// Check returns the reason why a policy cannot become effective now, or nil.
func (c *Controller) Check(ctx context.Context, object *quotav1alpha1.GrantCreationPolicy) error {
	problems := registrationProblems(c.Catalog, object)
	kind := triggerOf(object)
	if _, ok, err := c.Kinds.VersionedResourceFor(ctx, kind); err == nil && !ok {
		problems = append(problems, notServed(kind))
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// GrantsOf returns the number of a policy's grants in this control plane, from the cache.
func (c *Controller) GrantsOf(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) (int, error) {
	var list quotav1alpha1.ResourceGrantList
	err := c.Client.List(ctx, &list, client.MatchingLabels{quotav1alpha1.LabelPolicyUID: string(policy.UID)}, client.UnsafeDisableDeepCopy)
	return len(list.Items), err
}

// removeFinalizers removes the finalizers of a policy without remaining grants.
func (c *Controller) removeFinalizers(ctx context.Context, object *quotav1alpha1.GrantCreationPolicy) error {
	updated := object.DeepCopy()
	holding, isKept := c.removeParentFinalizer(object, updated)
	if isKept {
		return nil
	}
	if err := c.removeLocalFinalizer(ctx, object, updated); err != nil {
		return err
	}
	if len(updated.Finalizers) != len(object.Finalizers) {
		if !slices.Contains(updated.Finalizers, quotav1alpha1.FinalizerParentGrants) {
			c.forgetRecord(object)
		}
		return c.update(ctx, updated)
	}
	if object.DeletionTimestamp != nil || len(holding) > 0 {
		c.policyQueue.AddAfter(object.Name, cleanupRetryInterval)
	}
	return nil
}

// ends reports whether a policy is to have no grants: it is deleted or in modeDelete.
func ends(object *quotav1alpha1.GrantCreationPolicy) bool {
	return object.DeletionTimestamp != nil || !object.IsEnabled()
}

// removeParentFinalizer removes the finalizer for grants in other control planes from updated if none has one. It
// returns the control planes with grants, and whether the policy is paused and keeps grants in an unregistered one.
func (c *Controller) removeParentFinalizer(object, updated *quotav1alpha1.GrantCreationPolicy) (holding []*controlPlane, isKept bool) {
	if !slices.Contains(object.Finalizers, quotav1alpha1.FinalizerParentGrants) || !ends(object) && object.Spec.Target.ParentContext != nil {
		return nil, false
	}
	leaves := object.DeletionTimestamp != nil
	holding, unregistered := c.controlPlanesOf(object)
	switch {
	case !leaves && !object.IsEnabled() && len(unregistered) > 0:
		return nil, true
	case len(holding) > 0:
		if leaves {
			c.reportHeldUp(object, holding)
		}
		return holding, false
	}
	removeFinalizer(updated, quotav1alpha1.FinalizerParentGrants)
	delete(updated.Annotations, quotav1alpha1.AnnotationControlPlanes)
	if len(unregistered) > 0 {
		c.recordEvent(object, nil, warning, quotav1alpha1.EventGrantsLeftBehind, "Delete", "grants of the policy may stay in %s: no Secret registers it now", firstFew(unregistered))
	}
	return nil, false
}

// removeLocalFinalizer removes the finalizer for grants in this control plane from updated if none are left.
func (c *Controller) removeLocalFinalizer(ctx context.Context, object, updated *quotav1alpha1.GrantCreationPolicy) error {
	if !ends(object) || !slices.Contains(object.Finalizers, quotav1alpha1.FinalizerGrants) || !c.controlPlane(remote.Ref{}).isClean(object.UID, time.Time{}) {
		return nil
	}
	none, err := c.hasNoLocalGrants(ctx, object)
	if none && err == nil {
		removeFinalizer(updated, quotav1alpha1.FinalizerGrants)
	}
	return err
}

func removeFinalizer(object *quotav1alpha1.GrantCreationPolicy, finalizer string) {
	object.Finalizers = slices.DeleteFunc(object.Finalizers, func(f string) bool { return f == finalizer })
}

func (c *Controller) controlPlane(ref remote.Ref) *controlPlane {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.controlPlanes[ref]
}

// reportHeldUp reports the unreachable control planes that hold up the deletion of a policy. The deletion of grants in
// reachable ones is under way.
func (c *Controller) reportHeldUp(object *quotav1alpha1.GrantCreationPolicy, holding []*controlPlane) {
	for _, p := range holding {
		_, problem := p.state()
		if p.invalid != nil {
			problem = p.invalid
		}
		if problem == nil {
			continue
		}
		c.recordEvent(object, c.secretOf(p), warning, quotav1alpha1.EventGrantsNotCleanedUp, "Delete",
			"the policy stays until its grants in %s are deleted: %v; make it answer, or delete Secret %s/%s to leave the grants behind",
			p.ref, problem, c.SystemNamespace, p.secretName())
	}
}
