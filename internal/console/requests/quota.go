package requests

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/usage"
)

// quotasMax bounds the resource types of consumers that a page reads.
const quotasMax = 500

// quotas are the use and limits of consumers in a namespace, with the units that amounts are entered in.
type quotas struct {
	items         []quotav1alpha1.EffectiveResourceGrant
	registrations map[string]*quotav1alpha1.ResourceRegistration
	// isForbidden is set if the person may not see the quota, and isCut if there is more than was read.
	isForbidden, isCut bool
}

// readQuotas reads the quota shown in a namespace, of consumers of a name or, if it is empty, of all. It leaves out what the
// person may not read.
func readQuotas(ctx context.Context, api client.Client, namespace, consumerName string) (*quotas, error) {
	q := &quotas{registrations: map[string]*quotav1alpha1.ResourceRegistration{}}
	options := []client.ListOption{client.InNamespace(namespace), client.Limit(quotasMax)}
	if consumerName != "" {
		options = append(options, client.MatchingFields{"spec.consumerRef.name": consumerName})
	}
	var list quotav1alpha1.EffectiveResourceGrantList
	err := api.List(ctx, &list, options...)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the quota in namespace %s: %w", namespace, err)
	}
	q.items, q.isForbidden, q.isCut = list.Items, err != nil, list.Continue != ""
	var registrations quotav1alpha1.ResourceRegistrationList
	if err := api.List(ctx, &registrations); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the registrations: %w", err)
	}
	for i := range registrations.Items {
		q.registrations[registrations.Items[i].Spec.ResourceType] = &registrations.Items[i]
	}
	return q, nil
}

// of returns the quota of a consumer, or nil if it is not shown.
func (q *quotas) of(consumer quotav1alpha1.ConsumerRef, resourceType string) *quotav1alpha1.EffectiveResourceGrant {
	for i := range q.items {
		if spec := &q.items[i].Spec; spec.ConsumerRef == consumer && spec.ResourceType == resourceType {
			return &q.items[i]
		}
	}
	return nil
}

// unit returns the display unit of a resource type. Tenants may not read registrations: for them it follows from amounts that
// are shown. It is the zero value if it is not known.
func (q *quotas) unit(resourceType string) usage.Unit {
	if registration := q.registrations[resourceType]; registration != nil {
		spec := &registration.Spec
		return usage.Unit{Name: spec.DisplayUnit, Factor: spec.UnitConversionFactor, Base: spec.BaseUnit}
	}
	for i := range q.items {
		if shown := &q.items[i]; shown.Spec.ResourceType == resourceType {
			s := &shown.Status
			if unit, isKnown := usage.UnitOf(usage.Item{Used: s.TotalAllocated, Limit: s.TotalLimit, Available: s.Available, Display: s.Display}); isKnown {
				return unit
			}
		}
	}
	return usage.Unit{}
}

// consumers returns the names of the consumers, as --for takes them.
func (q *quotas) consumers() []string {
	var refs []quotav1alpha1.ConsumerRef
	for i := range q.items {
		if ref := q.items[i].Spec.ConsumerRef; !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return consumername.List(refs)
}

// types returns the resource types, sorted: those that are shown, and those that are registered.
func (q *quotas) types() []string {
	var types []string
	for i := range q.items {
		types = append(types, q.items[i].Spec.ResourceType)
	}
	for resourceType := range q.registrations {
		types = append(types, resourceType)
	}
	slices.Sort(types)
	return slices.Compact(types)
}
