package overview

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// Unlisted is a registered resource type of which a consumer has no quota.
type Unlisted struct {
	Description
	ResourceType string
	// Consumer names the consumer as Kind/name.
	Consumer string
	// IsMetered reports whether a policy counts it: the limit is then 0. Otherwise nothing counts or limits it.
	IsMetered bool
}

// Unlisted returns the resource types registered for the kinds of the overview's consumers, unless the consumers have
// quota of them. It returns nothing if the user may not read registrations and ClaimCreationPolicies. Only these
// distinguish a limit of 0 from a resource type that nothing counts.
func (o *Overview) Unlisted(ctx context.Context, api client.Reader) ([]Unlisted, error) {
	if !o.Names.AreKnown || o.IsCut {
		return nil, nil
	}
	var policies quotav1alpha1.ClaimCreationPolicyList
	err := api.List(ctx, &policies)
	if usage.IsOutOfReach(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the policies: %w", err)
	}
	isMetered := map[string]bool{}
	for i := range policies.Items {
		if policy := &policies.Items[i]; policy.IsEnabled() {
			for _, resourceType := range policy.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes() {
				isMetered[resourceType] = true
			}
		}
	}
	listed := map[quotav1alpha1.ConsumerRef][]string{}
	var consumers []quotav1alpha1.ConsumerRef
	for i := range o.Items {
		usage := &o.Items[i].Usage
		if listed[usage.Consumer] == nil {
			consumers = append(consumers, usage.Consumer)
		}
		listed[usage.Consumer] = append(listed[usage.Consumer], usage.ResourceType)
	}
	var unlisted []Unlisted
	for _, consumer := range consumers {
		for _, resourceType := range o.Names.Types(schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}) {
			if !slices.Contains(listed[consumer], resourceType) {
				unlisted = append(unlisted, Unlisted{
					Description: o.Names.Describe(resourceType), ResourceType: resourceType, Consumer: consumer.Kind + "/" + consumer.Name,
					IsMetered: isMetered[resourceType],
				})
			}
		}
	}
	return unlisted, nil
}
