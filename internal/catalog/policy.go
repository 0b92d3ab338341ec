package catalog

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// Policy is an enabled ClaimCreationPolicy. It is immutable.
type Policy struct {
	*policy.ClaimPolicy
	Name string
	UID  types.UID
	// Generation is the generation of the compiled object.
	Generation int64
	// Revision is the revision of the catalog at which the policy appeared, or last became effective.
	Revision int64
	// Mode determines the handling of an object that exceeds a quota.
	Mode quotav1alpha1.EnforcementMode
	// IsDurable is set if the ledger has every reservation before the answer.
	IsDurable bool
	// HasViews is set if each object that counts has a ResourceClaim to look at.
	HasViews bool
	// Trigger is the kind that the policy protects: its creates and, if the policy follows updates, its changes.
	Trigger schema.GroupVersionKind
	// ResourceTypes are the resource types in the requests of its claims.
	ResourceTypes []string
	// Spec is what was compiled.
	Spec *quotav1alpha1.ClaimCreationPolicySpec

	template *quotav1alpha1.ResourceClaimTemplateSpec
}

// Reference returns the policy as events refer to it.
func (p *Policy) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ClaimCreationPolicy", Name: p.Name, UID: p.UID}
}

// Enforces reports whether the policy denies objects that exceed a quota.
func (p *Policy) Enforces() bool { return p.Mode == quotav1alpha1.EnforcementModeEnforce }

func (p *Policy) trigger() Trigger {
	return Trigger{GroupVersionKind: p.Trigger, Updates: p.FollowsUpdates(), Enforced: p.Enforces()}
}

// Trigger is a protected kind.
type Trigger struct {
	schema.GroupVersionKind
	// Updates is set if a policy reviews changes of an object too.
	Updates bool
	// Enforced is set if a policy denies objects.
	Enforced bool
}

// TriggerOf returns the kind that a policy protects.
func TriggerOf(object *quotav1alpha1.ClaimCreationPolicy) schema.GroupVersionKind {
	trigger := object.Spec.Trigger.Resource
	return schema.FromAPIVersionAndKind(trigger.APIVersion, trigger.Kind)
}

// Policies returns the effective policies for a kind, ordered by name. A generation of a policy becomes effective once
// the registrations allow its requests. It stays effective until another generation is, while all its resource types
// have an active registration. If the registrations later forbid its requests, it denies objects rather than let them
// pass uncounted.
func (c *Catalog) Policies(kind schema.GroupVersionKind) []*Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.effectiveLocked(c.byKind[kind])
}

func (c *Catalog) effectiveLocked(policies []*Policy) []*Policy {
	ineffective := func(p *Policy) bool { return !c.isEffectiveLocked(p) }
	if slices.ContainsFunc(policies, ineffective) {
		policies = slices.DeleteFunc(slices.Clone(policies), ineffective)
	}
	return policies
}

// isEffectiveLocked reports whether the current generation of a policy decides requests.
func (c *Catalog) isEffectiveLocked(p *Policy) bool {
	return !c.declarations[p.Name].isSuspended && !c.isUnregisteredLocked(p)
}

// Policy returns the effective policy with the name, or nil.
func (c *Catalog) Policy(name string) *Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if p := c.currentLocked(name); p != nil && c.isEffectiveLocked(p) {
		return p
	}
	return nil
}

// PoliciesOf returns the effective policies for a kind in any version, ordered by name.
func (c *Catalog) PoliciesOf(kind schema.GroupKind) []*Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.effectiveLocked(c.byGroupKind[kind])
}

// Protected lists the protected kinds, with the version of the declarations.
type Protected struct {
	// Triggers are the kinds under effective policies, in a fixed order.
	Triggers []Trigger
	// Version is the version of the declarations, and Revision is the catalog's revision.
	Version  Version
	Revision int64
	// Allocations is the version of the declared allocations. They protect ResourceQuotas. It is 0 if there are none.
	// Then nothing protects ResourceQuotas.
	Allocations Digest
}

// Protected returns the currently protected kinds.
func (c *Catalog) Protected() Protected {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Protected{c.triggersLocked(), c.versionLocked(), c.revision, c.declaredAllocations.digest}
}

// triggersLocked returns the kinds under policies that are effective, here or in a replica that can compile them.
func (c *Catalog) triggersLocked() []Trigger {
	protected := map[schema.GroupVersionKind]Trigger{}
	add := func(t Trigger) {
		other := protected[t.GroupVersionKind]
		t.Updates, t.Enforced = t.Updates || other.Updates, t.Enforced || other.Enforced
		protected[t.GroupVersionKind] = t
	}
	for _, d := range c.declarations {
		switch {
		case d.current == nil && d.stored.isInEffect():
			add(d.stored.trigger)
		case d.current != nil && c.isEffectiveLocked(d.current):
			add(d.current.trigger())
		}
	}

	return slices.SortedFunc(maps.Values(protected), func(a, b Trigger) int {
		return compareKinds(a.GroupVersionKind, b.GroupVersionKind)
	})
}

// isUnregisteredLocked reports whether a resource type of a policy has no active registration.
func (c *Catalog) isUnregisteredLocked(p *Policy) bool {
	return slices.ContainsFunc(p.ResourceTypes, func(resourceType string) bool { return c.byType[resourceType] == nil })
}

// insertLocked adds the current generation of a policy to the indexes.
func (c *Catalog) insertLocked(p *Policy) {
	c.byKind[p.Trigger] = insertSorted(c.byKind[p.Trigger], p)
	c.byGroupKind[p.Trigger.GroupKind()] = insertSorted(c.byGroupKind[p.Trigger.GroupKind()], p)
}

// removeLocked removes a policy from the indexes.
func (c *Catalog) removeLocked(p *Policy) {
	removeFrom(c.byKind, p.Trigger, p)
	removeFrom(c.byGroupKind, p.Trigger.GroupKind(), p)
}

func removeFrom[K comparable](index map[K][]*Policy, key K, p *Policy) {
	rest := slices.DeleteFunc(slices.Clone(index[key]), func(other *Policy) bool { return other == p })
	if len(rest) == 0 {
		delete(index, key)
		return
	}
	index[key] = rest
}

func insertSorted(policies []*Policy, p *Policy) []*Policy {
	policies = append(slices.Clone(policies), p)
	slices.SortFunc(policies, func(a, b *Policy) int { return cmp.Compare(a.Name, b.Name) })
	return policies
}
