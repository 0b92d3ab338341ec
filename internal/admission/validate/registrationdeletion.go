package validate

import (
	"context"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// garbageCollectors are the users of the garbage collector: its service account, and the user of a controller manager
// without service accounts for its controllers.
var garbageCollectors = map[string]bool{
	"system:serviceaccount:kube-system:generic-garbage-collector": true,
	"system:kube-controller-manager":                              true,
}

// registrationDeletion warns a user who deletes a registration in use: its finalizer holds it. Without the
// registration, Bursar would no longer enforce policies and count grants. A denial protects a registration without
// the finalizer. Nobody needs an inactive one, such as the second for its resource type.
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
		return result{} // the controller checks again before it removes the finalizer
	}
}

// registrationRelease forbids removing the finalizer from a deleted registration in use.
func (w *Webhooks) registrationRelease(ctx context.Context, c change[quotav1alpha1.ResourceRegistration]) result {
	isReleased := c.old.DeletionTimestamp != nil && isHeldInUse(c.old) && !isHeldInUse(c.new)
	if !isReleased || c.byBursar {
		return result{}
	}
	return w.registrationInUse(ctx, c.old)
}

// registrationInUse forbids the deletion of an active registration in use.
func (w *Webhooks) registrationInUse(ctx context.Context, registration *quotav1alpha1.ResourceRegistration) result {
	if !apimeta.IsStatusConditionTrue(registration.Status.Conditions, quotav1alpha1.ConditionActive) {
		return result{}
	}
	inUse, err := w.Registrations.InUse(ctx, registration)
	if err != nil {
		return result{unknown: fmt.Errorf("find the users of resource type %q: %w", registration.Spec.ResourceType, err)}
	}
	return result{forbidden: inUse}
}

func isHeldInUse(registration *quotav1alpha1.ResourceRegistration) bool {
	return slices.Contains(registration.Finalizers, quotav1alpha1.FinalizerInUse)
}

// checkNew forbids new uses of resource types that accept none. It permits existing uses.
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

// claimPolicyTypes returns the resource types of a policy, or none for a disabled one.
func claimPolicyTypes(policy *quotav1alpha1.ClaimCreationPolicy) []string {
	if policy == nil || !policy.IsEnabled() {
		return nil
	}
	return policy.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()
}

// grantPolicyTypes returns a policy's resource types of this control plane, or none for a disabled policy.
func grantPolicyTypes(policy *quotav1alpha1.GrantCreationPolicy) []string {
	if policy == nil || !policy.IsEnabled() || policy.Spec.Target.ParentContext != nil {
		return nil
	}
	return policy.Spec.Target.ResourceGrantTemplate.Spec.ResourceTypes()
}
