package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Registration is an active ResourceRegistration, prepared for decisions. It is immutable.
type Registration struct {
	Name         string
	ResourceType string
	Type         quotav1alpha1.RegistrationType
	// Consumer is the kind that receives grants and pays for this resource type.
	Consumer schema.GroupKind
	// BaseUnit is the unit of amounts; DisplayUnit is Factor base units.
	BaseUnit, DisplayUnit string
	Factor                int64
	// ExceededAdvice is the advice on exceeded quota. Empty: the platform's.
	ExceededAdvice string
	// DisplayName is the name of the resource type for people, in one line. It may be empty.
	DisplayName string
	// Description describes the resource type for people, and Owner names its service. Both may be empty.
	Description, Owner string
	// AlertThresholdPercent is the percentage of a limit from which on a consumer counts as near it. 0: the platform's.
	AlertThresholdPercent int
	// MaxPerConsumer bounds the sum of a consumer's grants, and MaxTotal the sum of all consumers' grants. 0: no cap.
	MaxPerConsumer, MaxTotal int64
	// IsClosing is set during the deletion of the registration: existing uses may continue, and the catalog denies new
	// ones.
	IsClosing bool

	// claiming has the kinds as written, by their lower case.
	claiming   map[schema.GroupKind]string
	dimensions []string
	created    time.Time
}

// MayClaim reports whether policies may charge this resource type for objects of the kind.
func (r *Registration) MayClaim(kind schema.GroupKind) bool {
	_, ok := r.claiming[lower(kind)]
	return ok
}

func lower(kind schema.GroupKind) schema.GroupKind {
	return schema.GroupKind{Group: kind.Group, Kind: strings.ToLower(kind.Kind)}
}

// mayBeClaimedFor reports whether a directly created claim may be for objects of the kind. A registration without
// kinds permits all.
func (r *Registration) mayBeClaimedFor(kind schema.GroupKind) bool {
	return len(r.claiming) == 0 || r.MayClaim(kind)
}

// HasDimensions reports whether quota of this resource type may depend on dimensions.
func (r *Registration) HasDimensions() bool { return len(r.dimensions) > 0 }

// NotDimensions returns the keys other than dimensions of this resource type, sorted and without duplicates.
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

// signals are the words by which readers of messages, such as bursar why, find their parts. A display name with one of
// them is not part of messages.
var signals = []string{"quota of ", "bursar request "}

// Named is the resource type in messages, after its display name if it has one: "vCPUs (compute.example.com/cpu)".
func (r *Registration) Named() string {
	isSignal := func(signal string) bool { return strings.Contains(r.DisplayName, signal) }
	if r.DisplayName == "" || r.DisplayName == r.ResourceType || slices.ContainsFunc(signals, isSignal) {
		return r.ResourceType
	}
	return r.DisplayName + " (" + r.ResourceType + ")"
}

// Subject is the name of the counted thing in denials. Without a display name it is the kind, if the type counts
// objects of one kind. Otherwise it is [Registration.Named].
func (r *Registration) Subject() string {
	if named := r.Named(); named != r.ResourceType {
		return named
	}
	return cmp.Or(r.OnlyKind(), r.ResourceType)
}

// OnlyKind returns the kind of the objects that the type counts, or "" if it counts several kinds, or amounts.
func (r *Registration) OnlyKind() string {
	if r.Type == quotav1alpha1.RegistrationTypeEntity && len(r.claiming) == 1 {
		for _, kind := range r.claiming {
			return kind
		}
	}
	return ""
}

// SetRegistration adds an active registration. It removes an inactive one.
func (c *Catalog) SetRegistration(object *quotav1alpha1.ResourceRegistration) {
	if !isActive(object) {
		c.RemoveRegistration(object.Name)
		return
	}
	ref := object.Spec.Consumer()
	r := &Registration{
		Name:         object.Name,
		ResourceType: object.Spec.ResourceType,
		Type:         object.Spec.Type,
		Consumer:     schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind},
		BaseUnit:     object.Spec.BaseUnit,
		DisplayUnit:  object.Spec.DisplayUnit,
		Factor:       max(object.Spec.UnitConversionFactor, 1),

		MaxPerConsumer: ptr.Deref(object.Spec.MaxPerConsumer, 0),
		MaxTotal:       ptr.Deref(object.Spec.MaxTotal, 0),

		DisplayName:    object.DisplayName(),
		Description:    object.Description(),
		Owner:          object.Owner(),
		ExceededAdvice: object.Annotations[quotav1alpha1.AnnotationExceededAdvice],

		claiming:   map[schema.GroupKind]string{},
		dimensions: slices.Clone(object.Spec.Dimensions),
		created:    object.CreationTimestamp.Time,

		IsClosing: object.DeletionTimestamp != nil,
	}
	r.AlertThresholdPercent, _ = quotav1alpha1.ParseAlertThreshold(object.Annotations[quotav1alpha1.AnnotationAlertThreshold])
	for _, claiming := range object.Spec.ClaimingResources {
		r.claiming[lower(schema.GroupKind{Group: claiming.APIGroup, Kind: claiming.Kind})] = claiming.Kind
	}
	c.change(func() {
		c.removeRegistrationLocked(object.Name)
		c.declaredRegistrations.set(object.Name, stampOfRegistration(object))
		c.registrations[r.Name] = r
		c.electLocked(r.ResourceType)
	})
}

// RemoveRegistration removes the registration with the name.
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

// electLocked chooses the registration that represents a resource type: the oldest active one. It chooses one under
// deletion only if there is no other. For a moment there can be two, until a controller marks the younger one as a
// duplicate.
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
	c.replaceAllowedLocked(resourceType)
}

// precedes reports whether r represents a resource type rather than other: one without a deletion under way, then the
// older one, then by name.
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

// IsCountedOnly reports whether Bursar only counts claims of a resource type and never denies them.
func (c *Catalog) IsCountedOnly(resourceType string) bool {
	r := c.Registration(resourceType)
	return r != nil && r.Type.IsCountedOnly()
}

// BaseUnit returns the base unit of a resource type, or "" without a registration.
func (c *Catalog) BaseUnit(resourceType string) string {
	if r := c.Registration(resourceType); r != nil {
		return r.BaseUnit
	}
	return ""
}

// CheckNew returns the reason why one of these resource types accepts no new uses, or nil. It ignores unregistered
// types.
func (c *Catalog) CheckNew(resourceTypes ...string) error {
	for _, resourceType := range resourceTypes {
		if r := c.Registration(resourceType); r != nil && r.IsClosing {
			return errors.New(r.closing())
		}
	}
	return nil
}

// closing returns the reason why a registration accepts no new uses.
func (r *Registration) closing() string {
	return fmt.Sprintf("resource type %q accepts nothing new: ResourceRegistration %s is being deleted", r.ResourceType, r.Name)
}
