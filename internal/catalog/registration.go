package catalog

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Registration is what decisions need to know of an active ResourceRegistration. It is immutable.
type Registration struct {
	Name         string
	ResourceType string
	Type         quotav1alpha1.RegistrationType
	// Consumer is the kind that is granted and charged for this resource type.
	Consumer schema.GroupKind
	// BaseUnit is what amounts count; DisplayUnit is Factor base units.
	BaseUnit, DisplayUnit string
	Factor                int64

	claiming map[schema.GroupKind]struct{}
}

// MayClaim tells whether objects of that kind may use up this resource type.
func (r *Registration) MayClaim(kind schema.GroupKind) bool {
	_, ok := r.claiming[kind]
	return ok
}

// Subject is what people call the thing that is counted: the kind, where objects of one kind
// are counted, else the resource type itself.
func (r *Registration) Subject() string {
	if r.Type == quotav1alpha1.RegistrationTypeEntity && len(r.claiming) == 1 {
		for kind := range r.claiming {
			return kind.Kind
		}
	}
	return r.ResourceType
}

// SetRegistration enters a registration, or removes it unless it is active.
func (c *Catalog) SetRegistration(object *quotav1alpha1.ResourceRegistration) {
	if !apimeta.IsStatusConditionTrue(object.Status.Conditions, quotav1alpha1.ConditionActive) || object.DeletionTimestamp != nil {
		c.RemoveRegistration(object.Name)
		return
	}
	ref := object.Spec.ConsumerTypeRef
	r := &Registration{
		Name:         object.Name,
		ResourceType: object.Spec.ResourceType,
		Type:         object.Spec.Type,
		Consumer:     schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind},
		BaseUnit:     object.Spec.BaseUnit,
		DisplayUnit:  object.Spec.DisplayUnit,
		Factor:       max(object.Spec.UnitConversionFactor, 1),
		claiming:     map[schema.GroupKind]struct{}{},
	}
	for _, claiming := range object.Spec.ClaimingResources {
		r.claiming[schema.GroupKind{Group: claiming.APIGroup, Kind: claiming.Kind}] = struct{}{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeRegistrationLocked(object.Name)
	c.registrations[r.ResourceType] = r
}

// RemoveRegistration removes the registration of that name.
func (c *Catalog) RemoveRegistration(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeRegistrationLocked(name)
}

func (c *Catalog) removeRegistrationLocked(name string) {
	for resourceType, r := range c.registrations {
		if r.Name == name {
			delete(c.registrations, resourceType)
		}
	}
}

// Registration returns the active registration of a resource type, or nil.
func (c *Catalog) Registration(resourceType string) *Registration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.registrations[resourceType]
}
