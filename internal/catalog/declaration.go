package catalog

import (
	"cmp"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// declaration is a declared policy, with the generations of it that matter to decisions.
type declaration struct {
	uid        types.UID
	generation int64
	trigger    Trigger
	// latest is the declared generation, or nil if it does not compile because of errs.
	latest *Policy
	errs   field.ErrorList
	// current is the generation that decides requests, or nil if none does in this process. It is an earlier one than
	// latest while the registrations do not allow latest, or while the leader has not accepted its kind.
	current *Policy
	// accepted is the generation whose kind this process, as the leader, has accepted.
	accepted int64
	// isSuspended is set while Bursar may not follow the objects of current.
	isSuspended bool
	// stored is the effective generation according to the status, or nil.
	stored *storedGeneration
	// isRejected is set if the status says that latest is not effective.
	isRejected bool
}

// storedGeneration is the effective generation of a policy according to its status. A process that starts knows an
// earlier generation only from there.
type storedGeneration struct {
	generation  int64
	trigger     Trigger
	isSuspended bool
}

// isInEffect reports whether some replica decides requests by the generation.
func (s *storedGeneration) isInEffect() bool { return s != nil && !s.isSuspended }

// SetPolicy compiles and adds the latest generation of a policy, and returns its compile errors. It removes the policy
// if it is disabled or under deletion. It does not compile an unchanged policy again.
//
// Whatever is wrong with the latest generation, the former one stays effective. A mistake in a change, a missing
// registration, a kind that nobody serves or a binary that does not know a field never ends enforcement. The former
// generation comes from memory or, in a new process, from the status.
func (c *Catalog) SetPolicy(object *quotav1alpha1.ClaimCreationPolicy) field.ErrorList {
	if !isDeclared(object) {
		c.change(func() {
			c.undeclareLocked(object.Name)
			c.policyObjects.set(object)
		})
		return nil
	}
	latest, errs := c.compileLatest(object)
	former := c.compileStored(object)

	c.change(func() {
		d := c.declarations[object.Name]
		if d == nil || d.uid != object.UID {
			c.removePolicyLocked(object.Name)
			d = &declaration{uid: object.UID}
			c.declarations[object.Name] = d
		}
		if object.Generation == 0 || d.generation != object.Generation { // a file has no generation
			d.generation, d.trigger, d.latest, d.errs = object.Generation, triggerOf(&object.Spec), latest, errs
		}
		d.readStatus(object)
		c.declaredPolicies.set(object.Name, stampOfPolicy(object))
		c.policyObjects.set(object)
		c.setCurrentLocked(d, c.chooseCurrentLocked(d, former))
	})
	return errs
}

// compileLatest returns the compiled policy, or its errors.
func (c *Catalog) compileLatest(object *quotav1alpha1.ClaimCreationPolicy) (*Policy, field.ErrorList) {
	if latest, errs, isKnown := c.knownLatest(object); isKnown {
		return latest, errs
	}
	return compile(object)
}

func (c *Catalog) knownLatest(object *quotav1alpha1.ClaimCreationPolicy) (latest *Policy, errs field.ErrorList, isKnown bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	d := c.declarations[object.Name]
	if d == nil || d.uid != object.UID || d.generation != object.Generation || d.generation == 0 {
		return nil, nil, false
	}
	return d.latest, d.errs, true
}

// compileStored returns the effective generation according to the status, or nil if this process does not need it or
// cannot compile it.
func (c *Catalog) compileStored(object *quotav1alpha1.ClaimCreationPolicy) *Policy {
	stored := object.Status.Effective
	if stored == nil || stored.Generation == object.Generation {
		return nil
	}
	c.mu.RLock()
	current := c.currentLocked(object.Name)
	c.mu.RUnlock()
	if current != nil && current.UID == object.UID && current.Generation >= stored.Generation {
		return nil
	}

	former := object.Former()
	if former == nil {
		return nil
	}
	p, _ := compile(former) // the status of the latest generation has the errors that somebody can mend
	return p
}

func compile(object *quotav1alpha1.ClaimCreationPolicy) (*Policy, field.ErrorList) {
	compiled, errs := policy.Compile(object)
	if len(errs) > 0 {
		return nil, errs
	}
	template := &object.Spec.Target.ResourceClaimTemplate.Spec
	return &Policy{
		ClaimPolicy: compiled, Name: object.Name, UID: object.UID, Generation: object.Generation,
		Mode: modeOf(&object.Spec), Trigger: TriggerOf(object),
		IsDurable: object.Spec.Admission == quotav1alpha1.AdmissionModeDurable,
		HasViews:  compiled.CountsObjects() && object.Spec.Claims != quotav1alpha1.ClaimsModeNone,
		Spec:      &object.Spec, template: template, ResourceTypes: template.ResourceTypes(),
	}, nil
}

func modeOf(spec *quotav1alpha1.ClaimCreationPolicySpec) quotav1alpha1.EnforcementMode {
	return cmp.Or(spec.EnforcementMode, quotav1alpha1.EnforcementModeEnforce)
}

func triggerOf(spec *quotav1alpha1.ClaimCreationPolicySpec) Trigger {
	return Trigger{
		GroupVersionKind: schema.FromAPIVersionAndKind(spec.Trigger.Resource.APIVersion, spec.Trigger.Resource.Kind),
		Updates:          slices.Contains(spec.Trigger.Operations, quotav1alpha1.TriggerOperationUpdate),
		Enforced:         modeOf(spec) == quotav1alpha1.EnforcementModeEnforce,
	}
}

// readStatus takes over what the leader wrote. The leader itself may be ahead of the status that it reads back, so only
// a changed suspension counts.
func (d *declaration) readStatus(object *quotav1alpha1.ClaimCreationPolicy) {
	ready := apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionReady)
	d.isRejected = ready != nil && ready.Status == metav1.ConditionFalse && ready.ObservedGeneration == object.Generation

	before := d.stored
	d.stored = nil
	if effective := object.Status.Effective; effective != nil {
		d.stored = &storedGeneration{generation: effective.Generation, isSuspended: effective.Suspended, trigger: d.trigger}
		if spec := effective.DecodeSpec(); spec != nil {
			d.stored.trigger = triggerOf(spec)
		}
	}
	isNews := d.stored != nil && (before == nil || *before != *d.stored)
	if isNews && d.current != nil && d.current.Generation == d.stored.generation {
		d.isSuspended = d.stored.isSuspended
	}
}

// chooseCurrentLocked returns the generation that decides requests from now on. former is the stored one, or nil.
func (c *Catalog) chooseCurrentLocked(d *declaration, former *Policy) *Policy {
	var proven int64
	if d.stored != nil {
		proven = d.stored.generation
	}
	wasEffective := d.stored != nil && proven == d.generation
	switch {
	case d.latest != nil && (wasEffective || c.maySucceedLocked(d)):
		return d.latest
	case d.current != nil && d.current.Generation >= proven:
		return d.current
	default:
		return former
	}
}

// setCurrentLocked makes a generation decide requests. p may be nil.
func (c *Catalog) setCurrentLocked(d *declaration, p *Policy) {
	if d.current == p {
		return
	}
	if d.current != nil {
		c.removeLocked(d.current)
	}
	d.current, d.isSuspended = nil, false
	if p == nil {
		return
	}
	if d.stored != nil && d.stored.generation == p.Generation {
		d.isSuspended = d.stored.isSuspended
	}
	c.enterLocked(d, *p)
}

// enterLocked makes a policy the current one, with a revision of its own. It takes a copy: callers may hold the
// original.
func (c *Catalog) enterLocked(d *declaration, p Policy) {
	c.revision++
	p.Revision = c.revision
	if d.latest != nil && d.latest.Generation == p.Generation {
		d.latest = &p
	}
	d.current = &p
	c.insertLocked(&p)
}

// maySucceedLocked reports whether the latest generation of a policy may take the place of the current one. The
// registrations have to allow it. If it is about another kind, the leader has to accept that kind: no registration
// shows a typo in it, and the objects of the former kind would pass uncharged.
func (c *Catalog) maySucceedLocked(d *declaration) bool {
	return c.isAllowedLocked(d.latest) && (!d.changesKind() || d.accepted == d.generation)
}

// changesKind reports whether the latest generation is about another kind than the one that was Ready.
func (d *declaration) changesKind() bool {
	switch {
	case d.stored == nil:
		return false // nobody relies on it
	case d.current != nil:
		return d.current.Trigger != d.trigger.GroupVersionKind
	default:
		return d.stored.trigger.GroupVersionKind != d.trigger.GroupVersionKind
	}
}

// replaceAllowedLocked makes the latest generations effective that the registrations allow now.
func (c *Catalog) replaceAllowedLocked(resourceType string) {
	for _, d := range c.declarations {
		if d.latest != nil && d.latest != d.current && slices.Contains(d.latest.ResourceTypes, resourceType) && c.maySucceedLocked(d) {
			c.setCurrentLocked(d, d.latest)
		}
	}
}

// AcceptKind makes the latest generation of a policy effective although it is about another kind than the former one.
// The leader calls it once it knows that the kind is served, and that Bursar may follow its objects. Other replicas
// learn of it from the status. It reports whether another generation decides requests from now on.
func (c *Catalog) AcceptKind(name string, generation int64) (isChanged bool) {
	c.change(func() {
		d := c.declarations[name]
		if d == nil || d.generation != generation || d.latest == nil || d.latest == d.current {
			return
		}
		d.accepted = generation
		if isChanged = c.maySucceedLocked(d); isChanged {
			c.setCurrentLocked(d, d.latest)
		}
	})
	return isChanged
}

// SetSuspended suspends the current generation of a policy, or resumes it. It does nothing if another generation is
// current. It reports whether the state changed.
func (c *Catalog) SetSuspended(name string, generation int64, isSuspended bool) (isChanged bool) {
	isOther := func() bool {
		p := c.currentLocked(name)
		return p == nil || p.Generation != generation || c.declarations[name].isSuspended == isSuspended
	}
	c.mu.RLock()
	isUnchanged := isOther()
	c.mu.RUnlock()
	if isUnchanged {
		return false
	}
	c.change(func() {
		if isChanged = !isOther(); isChanged {
			c.declarations[name].isSuspended = isSuspended
		}
	})
	return isChanged
}

// ForgetSuspensions takes the suspensions from the statuses alone. A replica that loses the lead calls it, because what
// it knew beyond the statuses may change without its knowledge.
func (c *Catalog) ForgetSuspensions() {
	c.change(func() {
		for _, d := range c.declarations {
			d.isSuspended = d.current != nil && d.stored != nil && d.stored.generation == d.current.Generation && d.stored.isSuspended
		}
	})
}

// change applies a change of the declarations. A policy that becomes effective again gets a new revision, because
// earlier decisions ignored it.
func (c *Catalog) change(apply func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ineffective := map[string]*Policy{}
	for name, d := range c.declarations {
		if d.current != nil && !c.isEffectiveLocked(d.current) {
			ineffective[name] = d.current
		}
	}

	apply()

	for name, p := range ineffective {
		d := c.declarations[name]
		if d == nil || d.current != p || !c.isEffectiveLocked(p) {
			continue
		}
		c.removeLocked(p)
		c.enterLocked(d, *p)
	}
	c.indexUndecidableLocked()
}

// RemovePolicy removes the policy with the name.
func (c *Catalog) RemovePolicy(name string) {
	c.change(func() {
		c.undeclareLocked(name)
		c.policyObjects.remove(name)
	})
}

// undeclareLocked removes a policy that is disabled, or that does not exist any more.
func (c *Catalog) undeclareLocked(name string) {
	c.removePolicyLocked(name)
	c.declaredPolicies.set(name, 0)
}

func (c *Catalog) removePolicyLocked(name string) {
	if p := c.currentLocked(name); p != nil {
		c.removeLocked(p)
	}
	delete(c.declarations, name)
}

// Current returns the generation of a policy that decides requests while its resource types are registered and it is
// not suspended, or nil.
func (c *Catalog) Current(name string) (current *Policy, isSuspended bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if p := c.currentLocked(name); p != nil {
		return p, c.declarations[name].isSuspended
	}
	return nil, false
}

func (c *Catalog) currentLocked(name string) *Policy {
	if d := c.declarations[name]; d != nil {
		return d.current
	}
	return nil
}

// CompileErrors returns the compile errors of this generation of a policy, without compiling it again. It returns nil
// for an unknown policy.
func (c *Catalog) CompileErrors(object *quotav1alpha1.ClaimCreationPolicy) field.ErrorList {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if d := c.declarations[object.Name]; d != nil && d.uid == object.UID && d.generation == object.Generation {
		return d.errs
	}
	return nil
}
