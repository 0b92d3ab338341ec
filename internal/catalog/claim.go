package catalog

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// CheckClaim tells why the registrations do not allow a claim, or returns nil. Every reason is
// named, in the order of the requests.
func (c *Catalog) CheckClaim(spec *quotav1alpha1.ResourceClaimSpec) error {
	consumer := schema.GroupKind{Group: spec.ConsumerRef.APIGroup, Kind: spec.ConsumerRef.Kind}
	claiming := schema.GroupKind{Group: spec.ResourceRef.APIGroup, Kind: spec.ResourceRef.Kind}
	var problems []string
	for _, request := range spec.Requests {
		r := c.Registration(request.ResourceType)
		switch {
		case r == nil:
			problems = append(problems, fmt.Sprintf("resource type %q has no active ResourceRegistration", request.ResourceType))
		case r.Consumer != consumer:
			problems = append(problems, fmt.Sprintf("resource type %q is granted to %s, not to %s", request.ResourceType, r.Consumer, consumer))
		case !r.MayClaim(claiming):
			problems = append(problems, fmt.Sprintf("resource type %q may not be claimed by %s: ResourceRegistration %s does not list it in claimingResources",
				request.ResourceType, claiming, r.Name))
		}
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(problems, "; "))
}

// CheckGrant tells why the registrations do not allow a grant, or returns nil.
func (c *Catalog) CheckGrant(spec *quotav1alpha1.ResourceGrantSpec) error {
	consumer := schema.GroupKind{Group: spec.ConsumerRef.APIGroup, Kind: spec.ConsumerRef.Kind}
	var problems []string
	for _, allowance := range spec.Allowances {
		r := c.Registration(allowance.ResourceType)
		switch {
		case r == nil:
			problems = append(problems, fmt.Sprintf("resource type %q has no active ResourceRegistration", allowance.ResourceType))
		case r.Consumer != consumer:
			problems = append(problems, fmt.Sprintf("resource type %q is granted to %s, not to %s", allowance.ResourceType, r.Consumer, consumer))
		}
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(problems, "; "))
}
