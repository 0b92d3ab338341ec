package validate

import (
	"context"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// garbageCollectors are the users by which the garbage collector deletes what its owner has left
// behind: its own, and that of a controller manager without users for its controllers.
var garbageCollectors = map[string]bool{
	"system:serviceaccount:kube-system:generic-garbage-collector": true,
	"system:kube-controller-manager":                              true,
}

// registrationDeletion warns whoever deletes a registration in use that its finalizer keeps it: without the
// registration, policies would stop being enforced and grants would no longer count. One that lost the finalizer
// is kept by refusing. One that is not active, such as the second for its resource type, holds up nothing.
func (w *Webhooks) registrationDeletion(ctx context.Context, c change[quotav1alpha1.ResourceRegistration]) result {
	isHeld := isHeldInUse(c.old)
	if c.old.DeletionTimestamp != nil || c.byBursar || !isHeld && garbageCollectors[c.username] {
		return result{}
	}
	v := w.registrationInUse(ctx, c.old)
	switch {
	case !isHeld:
		return v
	case v.forbidden != "":
		return result{warnings: []string{"it stays, and accepts nothing new, until nothing uses it: " + v.forbidden}}
	default:
		return result{} // what is not known now is found out before it goes
	}
}

// registrationRelease forbids taking the finalizer from a deleted registration that is in use.
func (w *Webhooks) registrationRelease(ctx context.Context, c change[quotav1alpha1.ResourceRegistration]) result {
	isReleased := c.old.DeletionTimestamp != nil && isHeldInUse(c.old) && !isHeldInUse(c.new)
	if !isReleased || c.byBursar {
		return result{}
	}
	return w.registrationInUse(ctx, c.old)
}

// registrationInUse forbids that an active registration goes while somebody relies on it.
func (w *Webhooks) registrationInUse(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) result {
	if !apimeta.IsStatusConditionTrue(registration.Status.Conditions, quotav1alpha1.ConditionActive) {
		return result{}
	}
	inUse, err := w.Registrations.InUse(ctx, registration)
	if err != nil {
		return result{unknown: fmt.Errorf("find out who uses resource type %q: %w", registration.Spec.ResourceType, err)}
	}
	return result{forbidden: inUse}
}

func isHeldInUse(registration *quotav1alpha1.ResourceRegistration) bool {
	return slices.Contains(registration.Finalizers, quotav1alpha1.FinalizerInUse)
}

// checkNew forbids the use of resource types that take nothing new. Those used before may go on.
func (w *Webhooks) checkNew(before, after []string) result {
	added := slices.DeleteFunc(slices.Clone(after), func(resourceType string) bool { return slices.Contains(before, resourceType) })
	if err := w.Catalog.CheckNew(added...); err != nil {
		return result{forbidden: err.Error() + "; wait until it is gone, and register the type again"}
	}
	return result{}
}

func grantTypes(grant *quotav1alpha1.ResourceGrant) []string {
	if grant == nil {
		return nil
	}
	return grant.Spec.ResourceTypes()
}

// claimPolicyTypes are the resource types that a policy uses, none while it is disabled.
func claimPolicyTypes(policy *quotav1alpha1.ClaimCreationPolicy) []string {
	if policy == nil || !policy.IsEnabled() {
		return nil
	}
	return policy.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()
}

// grantPolicyTypes are the resource types of this control plane that a policy uses, none while it is disabled.
func grantPolicyTypes(policy *quotav1alpha1.GrantCreationPolicy) []string {
	if policy == nil || !policy.IsEnabled() || policy.Spec.Target.ParentContext != nil {
		return nil
	}
	return policy.Spec.Target.ResourceGrantTemplate.Spec.ResourceTypes()
}
