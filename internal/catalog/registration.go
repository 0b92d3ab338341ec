package catalog

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

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
	// ExceededAdvice says what to do where there is not enough; empty where the platform's does.
	ExceededAdvice string
	// AlertThresholdPercent is from which part of its limit on a consumer is near it; 0 where the platform says it.
	AlertThresholdPercent int
	// IsClosing is set while the registration is being deleted: what uses it may go on, and nothing new may.
	IsClosing bool

	claiming   map[schema.GroupKind]struct{}
	dimensions []string
	created    time.Time
}

// MayClaim tells whether objects of that kind may use up this resource type through a policy.
func (r *Registration) MayClaim(kind schema.GroupKind) bool {
	_, ok := r.claiming[kind]
	return ok
}

// mayBeClaimedFor tells whether a claim that somebody makes directly may be for objects of that
// kind. A registration that lists no kinds leaves it to those who make claims.
func (r *Registration) mayBeClaimedFor(kind schema.GroupKind) bool {
	return len(r.claiming) == 0 || r.MayClaim(kind)
}

// NotDimensions returns, sorted and once each, those of the keys that are not dimensions of this
// resource type.
func (r *Registration) NotDimensions(keys iter.Seq[string]) []string {
	var others []string
	for key := range keys {
		if !slices.Contains(r.dimensions, key) {
			others = append(others, key)
		}
	}
	slices.Sort(others)
	return slices.Compact(others)
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
	if !isActive(object) {
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

		ExceededAdvice: object.Annotations[quotav1alpha1.AnnotationExceededAdvice],

		claiming:   map[schema.GroupKind]struct{}{},
		dimensions: slices.Clone(object.Spec.Dimensions),
		created:    object.CreationTimestamp.Time,

		IsClosing: object.DeletionTimestamp != nil,
	}
	r.AlertThresholdPercent, _ = quotav1alpha1.ParseAlertThreshold(object.Annotations[quotav1alpha1.AnnotationAlertThreshold])
	for _, claiming := range object.Spec.ClaimingResources {
		r.claiming[schema.GroupKind{Group: claiming.APIGroup, Kind: claiming.Kind}] = struct{}{}
	}
	c.change(func() {
		c.removeRegistrationLocked(object.Name)
		c.declaredRegistrations.set(object.Name, stampOfRegistration(object))
		c.registrations[r.Name] = r
		c.electLocked(r.ResourceType)
	})
}

// RemoveRegistration removes the registration of that name.
func (c *Catalog) RemoveRegistration(name string) {
	c.change(func() {
		c.removeRegistrationLocked(name)
		c.declaredRegistrations.set(name, 0)
	})
}

func (c *Catalog) removeRegistrationLocked(name string) {
	if r := c.registrations[name]; r != nil {
		delete(c.registrations, name)
		c.electLocked(r.ResourceType)
	}
}

// electLocked chooses the registration that stands for a resource type: the oldest of those
// that say that they are active, and of those that are being deleted only where there is no other.
// For a moment there can be two, until the younger is told that it is a duplicate.
func (c *Catalog) electLocked(resourceType string) {
	var oldest *Registration
	for _, r := range c.registrations {
		if r.ResourceType == resourceType && (oldest == nil || r.precedes(oldest)) {
			oldest = r
		}
	}
	if oldest == nil {
		delete(c.byType, resourceType)
		return
	}
	c.byType[resourceType] = oldest
	for _, p := range c.policies {
		if !c.effective[p.Name] && slices.Contains(p.ResourceTypes, resourceType) {
			c.effective[p.Name] = c.isAllowedLocked(p)
		}
	}
}

// precedes tells whether r stands for a resource type rather than other: one that stays, then the older one; names
// decide between those of one second.
func (r *Registration) precedes(other *Registration) bool {
	if r.IsClosing != other.IsClosing {
		return other.IsClosing
	}
	if r.created.Equal(other.created) {
		return r.Name < other.Name
	}
	return r.created.Before(other.created)
}

// Registration returns the active registration of a resource type, or nil.
func (c *Catalog) Registration(resourceType string) *Registration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byType[resourceType]
}

// BaseUnit returns the base unit of a resource type, or "" if none is registered.
func (c *Catalog) BaseUnit(resourceType string) string {
	if r := c.Registration(resourceType); r != nil {
		return r.BaseUnit
	}
	return ""
}

// CheckNew tells why one of these resource types takes nothing new, or returns nil. Which are not registered at all
// is not its concern.
func (c *Catalog) CheckNew(resourceTypes ...string) error {
	for _, resourceType := range resourceTypes {
		if r := c.Registration(resourceType); r != nil && r.IsClosing {
			return errors.New(r.closing())
		}
	}
	return nil
}

// closing says why a registration takes nothing new.
func (r *Registration) closing() string {
	return fmt.Sprintf("resource type %q accepts nothing new: ResourceRegistration %s is being deleted", r.ResourceType, r.Name)
}
