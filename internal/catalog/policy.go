package catalog

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	// Trigger is the kind that the policy protects: its creates and, if the policy follows updates, its changes.
	Trigger schema.GroupVersionKind
	// ResourceTypes are the resource types in the requests of its claims.
	ResourceTypes []string

	template *quotav1alpha1.ResourceClaimTemplateSpec
}

// Reference returns the policy as events refer to it.
func (p *Policy) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ClaimCreationPolicy", Name: p.Name, UID: p.UID}
}

// Enforces reports whether the policy denies objects that exceed a quota.
func (p *Policy) Enforces() bool { return p.Mode == quotav1alpha1.EnforcementModeEnforce }

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

// SetPolicy compiles and adds a policy. It removes the policy if it is disabled, under deletion, or does not compile.
// It returns the compile errors. It does not compile an unchanged policy again. An effective generation of the policy
// stays until the registrations allow the new one, or the status has a decision on it, because the watch of the
// registrations may lag.
func (c *Catalog) SetPolicy(object *quotav1alpha1.ClaimCreationPolicy) field.ErrorList {
	if !isDeclared(object) {
		c.RemovePolicy(object.Name)
		return nil
	}
	if c.has(object) {
		if wasReady(object) && c.Policy(object.Name) == nil {
			c.change(func() { c.effective[object.Name] = true })
		}
		return nil
	}
	if c.settlePending(object) {
		return nil
	}
	compiled, errs := policy.Compile(object)
	if len(errs) > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.removePolicyLocked(object.Name)
		c.declaredPolicies.set(object.Name, stampOfPolicy(object))
		c.invalid[object.Name] = invalidPolicy{object.UID, object.Generation, errs}
		return errs
	}
	p := &Policy{
		ClaimPolicy: compiled, Name: object.Name, UID: object.UID, Generation: object.Generation,
		Mode: cmp.Or(object.Spec.EnforcementMode, quotav1alpha1.EnforcementModeEnforce), Trigger: TriggerOf(object),
		IsDurable:     object.Spec.Admission == quotav1alpha1.AdmissionModeDurable,
		template:      &object.Spec.Target.ResourceClaimTemplate.Spec,
		ResourceTypes: object.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declaredPolicies.set(object.Name, stampOfPolicy(object))
	isEffective := wasReady(object) || c.isAllowedLocked(p)
	if !isEffective && !isDecided(object) && c.hasFormerLocked(object) {
		c.pending[p.Name] = p
		return nil
	}
	c.replacePolicyLocked(p, isEffective)
	return nil
}

// replacePolicyLocked adds a compiled policy in place of its former generation.
func (c *Catalog) replacePolicyLocked(p *Policy, isEffective bool) {
	c.removePolicyLocked(p.Name)
	c.revision++
	p.Revision = c.revision
	c.policies[p.Name] = p
	c.byKind[p.Trigger] = insertSorted(c.byKind[p.Trigger], p)
	c.byGroupKind[p.Trigger.GroupKind()] = insertSorted(c.byGroupKind[p.Trigger.GroupKind()], p)
	c.effective[p.Name] = isEffective
}

// wasReady reports whether this generation of a policy has been effective before, maybe in another process: adoption
// starts only after a policy is ready.
func wasReady(object *quotav1alpha1.ClaimCreationPolicy) bool {
	if adoption := object.Status.Adoption; adoption != nil && adoption.ObservedGeneration == object.Generation {
		return true
	}
	ready := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.Generation
}

// ResumeAll resumes all suspended policies. A replica without the lead no longer learns when a policy may resume.
func (c *Catalog) ResumeAll() {
	c.change(func() { clear(c.suspended) })
}

// SetSuspended suspends a generation of a policy, or resumes it. It reports whether the state changed.
func (c *Catalog) SetSuspended(name string, generation int64, isSuspended bool) bool {
	c.mu.RLock()
	p := c.policies[name]
	isChanged := p != nil && p.Generation == generation && c.suspended[name] != isSuspended
	c.mu.RUnlock()
	if !isChanged {
		return false
	}
	c.change(func() {
		if now := c.policies[name]; now == nil || now.Generation != generation {
			isChanged = false
			return
		}
		delete(c.suspended, name)
		if isSuspended {
			c.suspended[name] = true
		}
	})
	return isChanged
}

// change applies a change that may make policies effective again. Such a policy gets a new revision, because earlier
// decisions ignored it.
func (c *Catalog) change(apply func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ineffective []*Policy
	for _, p := range c.policies {
		if !c.isEffectiveLocked(p) {
			ineffective = append(ineffective, p)
		}
	}
	apply()
	for _, p := range ineffective {
		if c.policies[p.Name] != p || !c.isEffectiveLocked(p) {
			continue
		}
		c.revision++
		again := *p
		again.Revision = c.revision
		c.policies[p.Name] = &again
		replaceIn(c.byKind, p.Trigger, p, &again)
		replaceIn(c.byGroupKind, p.Trigger.GroupKind(), p, &again)
	}
}

// replaceIn replaces a policy in a copy of the list, because callers may hold the list.
func replaceIn[K comparable](index map[K][]*Policy, key K, before, after *Policy) {
	policies := slices.Clone(index[key])
	policies[slices.Index(policies, before)] = after
	index[key] = policies
}

// has reports whether the catalog has this generation of a policy.
func (c *Catalog) has(object *quotav1alpha1.ClaimCreationPolicy) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p := c.policies[object.Name]
	return p != nil && p.UID == object.UID && p.Generation == object.Generation && p.Generation != 0
}

// RemovePolicy removes the policy with the name.
func (c *Catalog) RemovePolicy(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removePolicyLocked(name)
	c.declaredPolicies.set(name, 0)
}

func (c *Catalog) removePolicyLocked(name string) {
	delete(c.invalid, name)
	delete(c.pending, name)
	p := c.policies[name]
	if p == nil {
		return
	}
	delete(c.policies, name)
	delete(c.effective, name)
	delete(c.suspended, name)
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

// invalidPolicy is a policy that does not compile.
type invalidPolicy struct {
	uid        types.UID
	generation int64
	errs       field.ErrorList
}

// CompileErrors returns the compile errors of this generation of a policy, without compiling it again. It returns nil
// for an unknown policy.
func (c *Catalog) CompileErrors(object *quotav1alpha1.ClaimCreationPolicy) field.ErrorList {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if f := c.invalid[object.Name]; f.uid == object.UID && f.generation == object.Generation {
		return f.errs
	}
	return nil
}

// Revision returns the revision of the catalog. It grows with every new policy.
func (c *Catalog) Revision() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// PolicyGeneration returns the generation of a policy in present decisions, or 0 if there is none.
func (c *Catalog) PolicyGeneration(name string) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if p := c.policies[name]; p != nil {
		return p.Generation
	}
	return 0
}

// Policies returns the effective policies for a kind, ordered by name. A policy becomes effective once the
// registrations allow its requests, and stays effective while all its resource types have an active registration. If
// the registrations later forbid its requests, it denies objects rather than let them pass uncounted.
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

func (c *Catalog) isEffectiveLocked(p *Policy) bool {
	return c.effective[p.Name] && !c.suspended[p.Name] && !c.isUnregisteredLocked(p)
}

// Policy returns the effective policy with the name, or nil.
func (c *Catalog) Policy(name string) *Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if p := c.policies[name]; p != nil && c.isEffectiveLocked(p) {
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

func (c *Catalog) triggersLocked() []Trigger {
	var triggers []Trigger
	for kind, policies := range c.byKind {
		trigger, protected := Trigger{GroupVersionKind: kind}, false
		for _, p := range policies {
			if !c.isEffectiveLocked(p) {
				continue
			}
			protected = true
			trigger.Updates = trigger.Updates || p.FollowsUpdates()
			trigger.Enforced = trigger.Enforced || p.Enforces()
		}
		if protected {
			triggers = append(triggers, trigger)
		}
	}
	slices.SortFunc(triggers, func(a, b Trigger) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return triggers
}

// isUnregisteredLocked reports whether a resource type of a policy has no active registration.
func (c *Catalog) isUnregisteredLocked(p *Policy) bool {
	return slices.ContainsFunc(p.ResourceTypes, func(resourceType string) bool { return c.byType[resourceType] == nil })
}

func insertSorted(policies []*Policy, p *Policy) []*Policy {
	policies = append(slices.Clone(policies), p)
	slices.SortFunc(policies, func(a, b *Policy) int { return cmp.Compare(a.Name, b.Name) })
	return policies
}
