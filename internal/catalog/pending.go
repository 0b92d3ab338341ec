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

// settlePending replaces the former generation of a policy if this one is pending and its status has a decision. It
// reports whether this one has been pending.
func (c *Catalog) settlePending(object *quotav1alpha1.ClaimCreationPolicy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[object.Name]
	if p == nil || p.UID != object.UID || p.Generation != object.Generation {
		return false
	}
	if isDecided(object) {
		c.replacePolicyLocked(p, wasReady(object))
	}
	return true
}

// replaceAllowedLocked makes the pending policies of a resource type effective that the registrations allow now.
func (c *Catalog) replaceAllowedLocked(resourceType string) {
	for _, p := range c.pending {
		if slices.Contains(p.ResourceTypes, resourceType) && c.isAllowedLocked(p) {
			c.replacePolicyLocked(p, true)
		}
	}
}

// HasFormer reports whether an earlier generation of a policy is still effective.
func (c *Catalog) HasFormer(object *quotav1alpha1.ClaimCreationPolicy) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.hasFormerLocked(object)
}

func (c *Catalog) hasFormerLocked(object *quotav1alpha1.ClaimCreationPolicy) bool {
	p := c.policies[object.Name]
	return p != nil && p.UID == object.UID && p.Generation < object.Generation && c.isEffectiveLocked(p)
}

// undecidedMax is how long policies and grants wait for the decision on a new registration. So one registration does
// not hold back a policy, or the other grants of a consumer, for longer.
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
		current.SetRegistration(&list.Items[i])
	}
	if check(current) == nil {
		return true, nil
	}
	return slices.ContainsFunc(list.Items, func(r quotav1alpha1.ResourceRegistration) bool {
		isDuplicate := current.Registration(r.Spec.ResourceType) != nil
		return slices.Contains(resourceTypes, r.Spec.ResourceType) && !isDuplicate && isNew(&r)
	}), nil
}

// isNew reports whether a registration is new and neither active nor rejected.
func isNew(registration *quotav1alpha1.ResourceRegistration) bool {
	active := apimeta.FindStatusCondition(registration.Status.Conditions, quotav1alpha1.ConditionActive)
	isRejected := active != nil && active.Reason == quotav1alpha1.ReasonValidationFailed
	return registration.DeletionTimestamp == nil && !isActive(registration) && !isRejected && time.Since(registration.CreationTimestamp.Time) < undecidedMax
}
