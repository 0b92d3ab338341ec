package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// isDecided reports whether the status of a policy says if this generation is effective.
func isDecided(object *quotav1alpha1.ClaimCreationPolicy) bool {
	ready := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionReady)
	return ready != nil && ready.ObservedGeneration == object.Generation
}

// isPending reports whether this generation of a policy has been waiting for registrations. It ends the wait if the
// status has a decision.
func (c *Catalog) isPending(object *quotav1alpha1.ClaimCreationPolicy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[object.Name]
	if p == nil || p.UID != object.UID || p.Generation != object.Generation {
		return false
	}
	if isDecided(object) {
		c.enterPolicyLocked(p, wasReady(object))
	}
	return true
}

// enterAllowedLocked enters the pending policies of a resource type that the registrations allow now.
func (c *Catalog) enterAllowedLocked(resourceType string) {
	for _, p := range c.pending {
		if slices.Contains(p.ResourceTypes, resourceType) && c.isAllowedLocked(p) {
			c.enterPolicyLocked(p, true)
		}
	}
}

// HasFormer reports whether an earlier generation of a policy is still effective.
func (c *Catalog) HasFormer(object *quotav1alpha1.ClaimCreationPolicy) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p := c.policies[object.Name]
	return p != nil && p.UID == object.UID && p.Generation < object.Generation && c.isEffectiveLocked(p)
}

// undecidedMax is how long policies and grants wait for a new registration. It bounds the time for which one
// registration holds back others.
const undecidedMax = time.Minute

// Undecided reports whether a catalog may soon allow what it does not allow now. Either it lags behind the
// registrations on the API server, or one of the resource types has a new registration without a decision. check is the
// check by a catalog.
func Undecided(ctx context.Context, live client.Reader, resourceTypes []string, check func(*Catalog) error) (bool, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if err := live.List(ctx, &list); err != nil {
		return false, fmt.Errorf("list the registrations: %w", err)
	}
	current := New()
	for i := range list.Items {
		registration := &list.Items[i]
		if slices.Contains(resourceTypes, registration.Spec.ResourceType) && isUndecided(registration) {
			return true, nil
		}
		current.SetRegistration(registration)
	}
	return check(current) == nil, nil
}

// isUndecided reports whether a registration is new and neither active nor rejected.
func isUndecided(registration *quotav1alpha1.ResourceRegistration) bool {
	active := apimeta.FindStatusCondition(registration.Status.Conditions, quotav1alpha1.ConditionActive)
	isRejected := active != nil && active.Reason == quotav1alpha1.ReasonValidationFailed
	return registration.DeletionTimestamp == nil && !isActive(registration) && !isRejected && time.Since(registration.CreationTimestamp.Time) < undecidedMax
}
