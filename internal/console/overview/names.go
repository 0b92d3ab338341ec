package overview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// Description describes a resource type for people.
type Description struct {
	// Title is the display name, or the end of the resource type: projects.
	Title string
	// Service is the beginning of the resource type: resourcemanager.example.com. It may be empty.
	Service string
	// About is the description in the registration, or empty.
	About string
	// Owner is the service that owns the resource type by its registration, or empty.
	Owner string
}

// Names are the registrations, as far as the user may read them.
type Names struct {
	// AreKnown is unset for users without the right to read registrations, such as most tenants.
	AreKnown bool

	byType map[string]*quotav1alpha1.ResourceRegistration
}

// ReadNames reads the registrations. They are unknown for users without the right to read them.
func ReadNames(ctx context.Context, api client.Reader) (Names, error) {
	var list quotav1alpha1.ResourceRegistrationList
	err := api.List(ctx, &list)
	if usage.IsOutOfReach(err) {
		return Names{}, nil
	}
	if err != nil {
		return Names{}, fmt.Errorf("list the registrations: %w", err)
	}
	n := Names{AreKnown: true, byType: map[string]*quotav1alpha1.ResourceRegistration{}}
	for i := range list.Items {
		registration := &list.Items[i]
		// Of several registrations of one type, one is active.
		if n.byType[registration.Spec.ResourceType] == nil || isActive(registration) {
			n.byType[registration.Spec.ResourceType] = registration
		}
	}
	return n, nil
}

func isActive(registration *quotav1alpha1.ResourceRegistration) bool {
	return apimeta.IsStatusConditionTrue(registration.Status.Conditions, quotav1alpha1.ConditionActive)
}

// Describe describes a resource type, registered or not.
func (n Names) Describe(resourceType string) Description {
	slash := strings.LastIndex(resourceType, "/")
	d := Description{Title: resourceType[slash+1:], Service: resourceType[:max(slash, 0)]}
	if d.Title == "" {
		d.Title = resourceType
	}
	if registration := n.byType[resourceType]; registration != nil {
		d.About = registration.Description()
		d.Owner = registration.Owner()
		d.Title = cmp.Or(registration.DisplayName(), d.Title)
	}
	return d
}

// Unit returns the display unit of a resource type. isKnown is false without its registration.
func (n Names) Unit(resourceType string) (unit usage.Unit, isKnown bool) {
	registration := n.byType[resourceType]
	if registration == nil {
		return unit, false
	}
	spec := &registration.Spec
	return usage.Unit{Name: spec.DisplayUnit, Factor: spec.UnitConversionFactor, Base: spec.BaseUnit}, true
}

// Registration returns the registration of a resource type, or nil if it is unknown.
func (n Names) Registration(resourceType string) *quotav1alpha1.ResourceRegistration {
	return n.byType[resourceType]
}

// ResourceTypes returns all registered resource types, sorted.
func (n Names) ResourceTypes() []string { return slices.Sorted(maps.Keys(n.byType)) }

// Types returns the registered resource types of a kind of consumer, sorted.
func (n Names) Types(of schema.GroupKind) []string {
	var types []string
	for resourceType, registration := range n.byType {
		ref := registration.Spec.Consumer()
		if isActive(registration) && ref.Kind == of.Kind && ref.APIGroup == of.Group {
			types = append(types, resourceType)
		}
	}
	slices.Sort(types)
	return types
}
