package importer

import (
	"slices"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
)

// leaveOutInvalid takes invalid declared objects out of a plan, with a note on each: Bursar would reject them, and with
// them the import. Objects of earlier imports with their names stay as they are. While a policy enforces, the import
// fails for grants and new registrations instead: without a grant, creates are denied, and without a registration, the
// policies for its type do not count.
func (p *Plan) leaveOutInvalid(before *earlier) {
	isEnforced := p.isEnforced() || len(before.enforcedTypes()) > 0
	isPresent := map[string]bool{}
	for _, r := range before.objects[registrations] {
		isPresent[r.GetName()] = true
	}
	p.invalid = map[string]bool{}
	p.Registrations = valid(p, registrations, "ResourceRegistration", p.Registrations, func(r *quotav1alpha1.ResourceRegistration) field.ErrorList {
		if isEnforced && !isPresent[r.Name] {
			return nil
		}
		return validate.Registration(nil, r, "")
	})
	p.Policies = valid(p, claimPolicies, "ClaimCreationPolicy", p.Policies, claimPolicyErrors)
	if isEnforced {
		return
	}
	p.Grants = valid(p, grants, "ResourceGrant", p.Grants, func(g *quotav1alpha1.ResourceGrant) field.ErrorList {
		return validate.Grant(nil, g)
	})
	p.GrantPolicies = valid(p, grantPolicies, "GrantCreationPolicy", p.GrantPolicies, func(g *quotav1alpha1.GrantCreationPolicy) field.ErrorList {
		return validate.GrantPolicy(nil, g)
	})
	p.TakenOver = slices.DeleteFunc(p.TakenOver, func(t TakenOver) bool { return p.invalid[t.From] })
}

// claimPolicyErrors also checks the bound that only the definition of the kind has.
func claimPolicyErrors(c *quotav1alpha1.ClaimCreationPolicy) field.ErrorList {
	errs := validate.ClaimPolicy(nil, c)
	requests := field.NewPath("spec", "target", "resourceClaimTemplate", "spec", "requests")
	for n, r := range c.Spec.Target.ResourceClaimTemplate.Spec.Requests {
		if utf8.RuneCountInString(r.ResourceType) > resourceTypeMax {
			errs = append(errs, field.TooLongCharacters(requests.Index(n).Child("resourceType"), r.ResourceType, resourceTypeMax))
		}
	}
	return errs
}

// valid returns the valid objects, and those older than the import: it changes only their marks.
func valid[T metav1.Object](p *Plan, resource schema.GroupVersionResource, kind string, objects []T, check func(T) field.ErrorList) []T {
	return slices.DeleteFunc(objects, func(object T) bool {
		if isInPlace(object) {
			return false
		}
		errs := check(object)
		if len(errs) == 0 {
			return false
		}
		name := objectRef(kind, object.GetNamespace(), object.GetName())
		p.Notes = append(p.Notes, Note{name, "Bursar would reject it, so it is left out: " + errs.ToAggregate().Error()})
		p.invalid[name], p.invalid[keyOf(resource, object)] = true, true
		return true
	})
}
