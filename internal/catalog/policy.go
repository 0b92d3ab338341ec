package catalog

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// Policy is an enabled ClaimCreationPolicy. It is immutable.
type Policy struct {
	*policy.ClaimPolicy
	Name string
	// Generation is that of the object that was compiled.
	Generation int64
	// Trigger is the kind whose creation the policy guards.
	Trigger schema.GroupVersionKind
	// ResourceTypes are those that its claims request.
	ResourceTypes []string
}

// TriggerOf returns the kind that a policy guards.
func TriggerOf(object *quotav1alpha1.ClaimCreationPolicy) schema.GroupVersionKind {
	trigger := object.Spec.Trigger.Resource
	return schema.FromAPIVersionAndKind(trigger.APIVersion, trigger.Kind)
}

// SetPolicy compiles and enters a policy, or removes it if it is disabled, being deleted or
// does not compile. It returns why it does not compile.
func (c *Catalog) SetPolicy(object *quotav1alpha1.ClaimCreationPolicy) field.ErrorList {
	if !object.IsEnabled() || object.DeletionTimestamp != nil {
		c.RemovePolicy(object.Name)
		return nil
	}
	compiled, errs := policy.Compile(object)
	if len(errs) > 0 {
		c.RemovePolicy(object.Name)
		return errs
	}
	p := &Policy{ClaimPolicy: compiled, Name: object.Name, Generation: object.Generation, Trigger: TriggerOf(object)}
	for _, request := range object.Spec.Target.ResourceClaimTemplate.Spec.Requests {
		p.ResourceTypes = append(p.ResourceTypes, request.ResourceType)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removePolicyLocked(object.Name)
	c.policies[p.Name] = p
	c.byKind[p.Trigger] = insertSorted(c.byKind[p.Trigger], p)
	return nil
}

// RemovePolicy removes the policy of that name.
func (c *Catalog) RemovePolicy(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removePolicyLocked(name)
}

func (c *Catalog) removePolicyLocked(name string) {
	p := c.policies[name]
	if p == nil {
		return
	}
	delete(c.policies, name)
	rest := slices.DeleteFunc(slices.Clone(c.byKind[p.Trigger]), func(other *Policy) bool { return other == p })
	if len(rest) == 0 {
		delete(c.byKind, p.Trigger)
		return
	}
	c.byKind[p.Trigger] = rest
}

// PolicyGeneration returns the generation of the policy of that name as decisions use it, or 0
// if they do not.
func (c *Catalog) PolicyGeneration(name string) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if p := c.policies[name]; p != nil {
		return p.Generation
	}
	return 0
}

// Policies returns the usable policies that guard a kind, ordered by name. A policy is usable
// while every resource type it requests has an active registration.
func (c *Catalog) Policies(kind schema.GroupVersionKind) []*Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	unusable := func(p *Policy) bool { return c.unregisteredLocked(p) != nil }
	policies := c.byKind[kind]
	if slices.ContainsFunc(policies, unusable) {
		policies = slices.DeleteFunc(slices.Clone(policies), unusable)
	}
	return policies
}

// Triggers returns the kinds that usable policies guard.
func (c *Catalog) Triggers() []schema.GroupVersionKind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var kinds []schema.GroupVersionKind
	for kind, policies := range c.byKind {
		if slices.ContainsFunc(policies, func(p *Policy) bool { return c.unregisteredLocked(p) == nil }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// unregisteredLocked returns the resource types of a policy that have no active registration.
func (c *Catalog) unregisteredLocked(p *Policy) []string {
	var missing []string
	for _, resourceType := range p.ResourceTypes {
		if c.byType[resourceType] == nil {
			missing = append(missing, resourceType)
		}
	}
	return missing
}

func insertSorted(policies []*Policy, p *Policy) []*Policy {
	policies = append(slices.Clone(policies), p)
	slices.SortFunc(policies, func(a, b *Policy) int { return cmp.Compare(a.Name, b.Name) })
	return policies
}
