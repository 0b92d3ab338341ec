package catalog

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// namedMax bounds the dimensions in a message. They may be long and a claim has many requests, while a condition
// bounds its message.
const namedMax = 2

// CheckClaim returns the reasons why the registrations do not allow a user's directly created claim, or nil. The
// reasons are in the order of the requests.
func (c *Catalog) CheckClaim(spec *quotav1alpha1.ResourceClaimSpec) error {
	mayClaim := (*Registration).mayBeClaimedFor
	if !spec.HasObject() {
		mayClaim = anyMayClaim
	}
	if err := c.checkClaim(spec, mayClaim); err != nil {
		return err
	}
	return c.CheckNew(spec.ResourceTypes()...)
}

// CheckPolicyClaim is CheckClaim for the claim of a policy. The claim may exist already, so it does not check whether
// the resource types accept new claims, see [Catalog.CheckNew].
func (c *Catalog) CheckPolicyClaim(spec *quotav1alpha1.ResourceClaimSpec) error {
	return c.checkClaim(spec, (*Registration).MayClaim)
}

func (c *Catalog) checkClaim(spec *quotav1alpha1.ResourceClaimSpec, mayClaim func(*Registration, schema.GroupKind) bool) error {
	consumer := schema.GroupKind{Group: spec.ConsumerRef.APIGroup, Kind: spec.ConsumerRef.Kind}
	claiming := schema.GroupKind{Group: spec.ResourceRef.APIGroup, Kind: spec.ResourceRef.Kind}
	var problems []string
	for _, request := range spec.Requests {
		r := c.Registration(request.ResourceType)
		if problem := claimProblem(r, request.ResourceType, consumer, claiming, request.Dimensions, mayClaim); problem != "" {
			problems = append(problems, problem)
		}
	}
	return joined(problems)
}

// CheckPolicy returns the reasons why the registrations keep a policy from being effective, or nil, as far as the
// template determines the claim. It does not check the claiming kinds, see [Catalog.CheckClaiming].
func (c *Catalog) CheckPolicy(object *quotav1alpha1.ClaimCreationPolicy) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	problems := c.policyProblemsLocked(TriggerOf(object).GroupKind(), &object.Spec.Target.ResourceClaimTemplate.Spec, anyMayClaim)
	return joined(problems)
}

// CheckClaiming returns the reasons why the trigger kind of a policy may not claim its requests, or nil. Such a
// policy is effective, and the evaluator denies its claims.
func (c *Catalog) CheckClaiming(object *quotav1alpha1.ClaimCreationPolicy) error {
	kind := TriggerOf(object).GroupKind()
	var problems []string
	for _, request := range object.Spec.Target.ResourceClaimTemplate.Spec.Requests {
		if r := c.Registration(request.ResourceType); r != nil && !r.MayClaim(kind) {
			problems = append(problems, r.mayNotClaim(kind))
		}
	}
	return joined(problems)
}

// CheckChangedKind returns the reasons why a policy must not go over to another kind, or nil. A kind that may not claim
// the requests is likely a mistake, such as the name of another kind, and objects of the former kind would pass
// uncharged.
func (c *Catalog) CheckChangedKind(object *quotav1alpha1.ClaimCreationPolicy) error {
	c.mu.RLock()
	d := c.declarations[object.Name]
	isChanged := d != nil && d.uid == object.UID && d.generation == object.Generation && d.changesKind()
	c.mu.RUnlock()
	if !isChanged {
		return nil
	}
	return c.CheckClaiming(object)
}

func anyMayClaim(*Registration, schema.GroupKind) bool { return true }

func (r *Registration) mayNotClaim(kind schema.GroupKind) string {
	return fmt.Sprintf("resource type %q may not be claimed by %s: ResourceRegistration %s does not list it in claimingResources",
		r.ResourceType, kind, r.Name)
}

// Allows reports whether the registrations allow the requests of a policy's claims now, as far as the template
// determines them.
func (c *Catalog) Allows(p *Policy) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.policyProblemsLocked(p.Trigger.GroupKind(), p.template, (*Registration).MayClaim) == nil
}

// isAllowedLocked reports whether the registrations allow a policy to be effective.
func (c *Catalog) isAllowedLocked(p *Policy) bool {
	return c.policyProblemsLocked(p.Trigger.GroupKind(), p.template, anyMayClaim) == nil
}

func (c *Catalog) policyProblemsLocked(claiming schema.GroupKind, template *quotav1alpha1.ResourceClaimTemplateSpec, mayClaim func(*Registration, schema.GroupKind) bool) []string {
	ref := template.ConsumerRef
	var problems []string
	for _, request := range template.Requests {
		r := c.byType[request.ResourceType]
		consumer := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
		if r != nil && (ref == (quotav1alpha1.ConsumerRef{}) || strings.Contains(ref.APIGroup+ref.Kind, "{{")) {
			consumer = r.Consumer // unknown until there is a request
		}
		if problem := claimProblem(r, request.ResourceType, consumer, claiming, request.Dimensions, mayClaim); problem != "" {
			problems = append(problems, problem)
		} else if r.IsClosing {
			problems = append(problems, r.closing())
		}
	}
	return problems
}

// claimProblem returns the reason why a registration does not allow a request, or "". The registration may be nil.
func claimProblem(r *Registration, resourceType string, consumer, claiming schema.GroupKind, dimensions map[string]string, mayClaim func(*Registration, schema.GroupKind) bool) string {
	switch {
	case r == nil:
		return notRegistered(resourceType)
	case r.Consumer != consumer:
		return r.notFor(consumer)
	case !mayClaim(r, claiming):
		return r.mayNotClaim(claiming)
	default:
		return r.requestProblem(dimensions)
	}
}

// joined returns one error for all problems, or nil if there are none.
func joined(problems []string) error {
	if problems == nil {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

func notRegistered(resourceType string) string {
	return fmt.Sprintf("resource type %q has no active ResourceRegistration", resourceType)
}

func (r *Registration) notFor(consumer schema.GroupKind) string {
	return fmt.Sprintf("resource type %q is granted to %s, not to %s", r.ResourceType, r.Consumer, consumer)
}

// CheckGrant returns the reasons why the registrations do not allow a grant, or nil. The grant may count already, so it
// does not check whether the resource types accept new grants, see [Catalog.CheckNew].
func (c *Catalog) CheckGrant(spec *quotav1alpha1.ResourceGrantSpec) error {
	consumer := schema.GroupKind{Group: spec.ConsumerRef.APIGroup, Kind: spec.ConsumerRef.Kind}
	var problems []string
	for _, allowance := range spec.Allowances {
		r := c.Registration(allowance.ResourceType)
		switch {
		case r == nil:
			problems = append(problems, notRegistered(allowance.ResourceType))
		case r.Consumer != consumer:
			problems = append(problems, r.notFor(consumer))
		default:
			if problem := r.selectorProblem(allowance.DimensionSelector); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	return joined(problems)
}

// requestProblem returns the reason why nobody can request the resource type with these dimensions, or "".
func (r *Registration) requestProblem(dimensions map[string]string) string {
	return r.dimensionsProblem(maps.Keys(dimensions), "request it without")
}

// selectorProblem returns the reason why no grant can select the resource type by this selector, or "".
func (r *Registration) selectorProblem(selector *metav1.LabelSelector) string {
	return r.dimensionsProblem(keysOf(selector), "select without")
}

func (r *Registration) dimensionsProblem(keys iter.Seq[string], instead string) string {
	others := r.NotDimensions(keys)
	if len(others) == 0 {
		return ""
	}
	what, them := "dimension", "it"
	if len(others) > 1 {
		what, them = "dimensions", "them"
	}
	named := make([]string, 0, namedMax)
	for _, key := range others[:min(len(others), namedMax)] {
		named = append(named, strconv.Quote(key))
	}
	list := strings.Join(named, ", ")
	if more := len(others) - len(named); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	if meant := r.dimensionsEnding(others); meant != "" {
		return fmt.Sprintf("resource type %q has no %s %s: did you mean %s?", r.ResourceType, what, list, meant)
	}
	return fmt.Sprintf("resource type %q has no %s %s: add %s to spec.dimensions of ResourceRegistration %s, or %s %s",
		r.ResourceType, what, list, them, r.Name, instead, them)
}

// dimensionsEnding returns the dimensions whose parts after the slash are the given keys, or "" unless each key has
// one. Messages name dimensions by this part, and so people enter it.
func (r *Registration) dimensionsEnding(keys []string) string {
	meant := make([]string, 0, namedMax)
	for _, key := range keys {
		at := slices.IndexFunc(r.dimensions, func(dimension string) bool { return strings.HasSuffix(dimension, "/"+key) })
		if at < 0 || len(meant) == namedMax {
			return ""
		}
		meant = append(meant, strconv.Quote(r.dimensions[at]))
	}
	return strings.Join(meant, ", ")
}

// keysOf yields the keys of a selector, unordered and possibly repeated.
func keysOf(selector *metav1.LabelSelector) iter.Seq[string] {
	return func(yield func(string) bool) {
		if selector == nil {
			return
		}
		for key := range selector.MatchLabels {
			if !yield(key) {
				return
			}
		}
		for _, requirement := range selector.MatchExpressions {
			if !yield(requirement.Key) {
				return
			}
		}
	}
}
