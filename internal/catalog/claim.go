package catalog

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// namedMax is how many dimensions a flaw names. They may be long and a claim has many requests,
// while the message of a condition is bounded.
const namedMax = 2

// CheckClaim tells why the registrations do not allow a claim that somebody makes directly, or
// returns nil. Every reason is named, in the order of the requests.
func (c *Catalog) CheckClaim(spec *quotav1alpha1.ResourceClaimSpec) error {
	if err := c.checkClaim(spec, (*Registration).mayBeClaimedFor); err != nil {
		return err
	}
	return c.CheckNew(spec.ResourceTypes()...)
}

// CheckPolicyClaim is CheckClaim for the claim of a policy, which may be one that exists already: whether the resource
// types take new ones is for [Catalog.CheckNew].
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

// CheckPolicy tells why a policy cannot be in force as the registrations are, as far as its template tells, or
// returns nil. Which kinds may claim is not for this function to check, but for [Catalog.CheckClaiming].
func (c *Catalog) CheckPolicy(object *quotav1alpha1.ClaimCreationPolicy) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	problems := c.policyProblemsLocked(TriggerOf(object).GroupKind(), &object.Spec.Target.ResourceClaimTemplate.Spec, anyMayClaim)
	return joined(problems)
}

// CheckClaiming tells why the kind that triggers a policy may not claim what the policy requests, or returns nil. Such a policy
// is in force, and its claims are refused.
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

func anyMayClaim(*Registration, schema.GroupKind) bool { return true }

func (r *Registration) mayNotClaim(kind schema.GroupKind) string {
	return fmt.Sprintf("resource type %q may not be claimed by %s: ResourceRegistration %s does not list it in claimingResources",
		r.ResourceType, kind, r.Name)
}

// Allows tells whether the registrations allow now what a policy's claims request, as far as its template
// tells.
func (c *Catalog) Allows(p *Policy) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.policyProblemsLocked(p.Trigger.GroupKind(), p.template, (*Registration).MayClaim) == nil
}

// isAllowedLocked tells whether the registrations allow a policy to be in force.
func (c *Catalog) isAllowedLocked(p *Policy) bool {
	return c.policyProblemsLocked(p.Trigger.GroupKind(), p.template, anyMayClaim) == nil
}

func (c *Catalog) policyProblemsLocked(claiming schema.GroupKind, template *quotav1alpha1.ResourceClaimTemplateSpec, mayClaim func(*Registration, schema.GroupKind) bool) []string {
	ref := template.ConsumerRef
	var problems []string
	for _, request := range template.Requests {
		r := c.byType[request.ResourceType]
		consumer := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
		if r != nil && strings.Contains(ref.APIGroup+ref.Kind, "{{") {
			consumer = r.Consumer // what it comes to is known once it is rendered
		}
		if problem := claimProblem(r, request.ResourceType, consumer, claiming, request.Dimensions, mayClaim); problem != "" {
			problems = append(problems, problem)
		} else if r.IsClosing {
			problems = append(problems, r.closing())
		}
	}
	return problems
}

// claimProblem tells why a registration, which may be nil, does not allow what a claim requests of it,
// or returns "".
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

// joined makes one error of all problems, or nil where there are none.
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

// CheckGrant tells why the registrations do not allow a grant, which may be one that counts already, or returns nil.
// Whether the resource types take new ones is for [Catalog.CheckNew].
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

// requestProblem tells why the resource type may not be requested with these dimensions, or returns "".
func (r *Registration) requestProblem(dimensions map[string]string) string {
	return r.dimensionsProblem(maps.Keys(dimensions), "request it without")
}

// selectorProblem tells why the resource type may not be granted by this selector, or returns "".
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
	return fmt.Sprintf("resource type %q has no %s %s: add %s to spec.dimensions of ResourceRegistration %s, or %s %s",
		r.ResourceType, what, list, them, r.Name, instead, them)
}

// keysOf yields the keys that a selector looks at, in no order and maybe repeatedly.
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
