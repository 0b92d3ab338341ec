package v1alpha1

import (
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons for the Active condition of registrations, besides [ReasonValidationFailed].
const (
	// ReasonRegistrationActive goes with Active=True: grants and claims may use the type.
	ReasonRegistrationActive = "RegistrationActive"

	// ReasonRegistrationPending goes with Active=False: Bursar has not processed the registration yet.
	ReasonRegistrationPending = "RegistrationPending"

	// ReasonRegistrationInUse goes with InUse=True: the registration is under deletion and still in use.
	ReasonRegistrationInUse = "RegistrationInUse"
)

// RegistrationType determines the measure of a resource type.
// +kubebuilder:validation:Enum=Entity;Allocation;Feature
type RegistrationType string

const (
	// RegistrationTypeEntity counts objects.
	RegistrationTypeEntity RegistrationType = "Entity"

	// RegistrationTypeAllocation adds up the requested amounts of objects, such as bytes.
	RegistrationTypeAllocation RegistrationType = "Allocation"

	// RegistrationTypeFeature is on or off for a consumer: on while its grants give more than 0. Bursar counts claims of
	// it, and never denies them.
	RegistrationTypeFeature RegistrationType = "Feature"
)

// IsCountedOnly reports whether Bursar counts claims of the type, and never denies them.
func (t RegistrationType) IsCountedOnly() bool { return t == RegistrationTypeFeature }

// ResourceRegistration registers a resource type for grants and claims: its name, its unit, the kind of consumer with a
// quota of it, and the kinds of object with claims of it. Grants and claims may use the type while the Active condition
// is True.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourceregistrations,scope=Cluster,shortName=rreg,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerTypeRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerTypeRef.apiGroup`
// +kubebuilder:selectablefield:JSONPath=`.spec.resourceType`
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerType.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerType.apiGroup`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Resource Type",type=string,JSONPath=`.spec.resourceType`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec['consumerType','consumerTypeRef'].kind`
// +kubebuilder:printcolumn:name="Unit",type=string,JSONPath=`.spec.displayUnit`
// +kubebuilder:printcolumn:name="Base Unit",type=string,JSONPath=`.spec.baseUnit`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].reason`,priority=1
// +kubebuilder:printcolumn:name="In Use",type=string,JSONPath=`.status.conditions[?(@.type=='InUse')].message`,priority=1
type ResourceRegistration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the resource type.
	Spec ResourceRegistrationSpec `json:"spec"`

	// status is the state of the registration.
	// +optional
	// +kubebuilder:default={conditions:{{type:"Active",status:"False",reason:"RegistrationPending",message:"Not reconciled yet",lastTransitionTime:"1970-01-01T00:00:00Z"}},observedGeneration:-1}
	Status ResourceRegistrationStatus `json:"status,omitzero"`
}

// ResourceRegistrationSpec describes a resource type. The fields resourceType, consumerType and type are immutable, and
// baseUnit changes only without grants and claims of the type, because stored amounts depend on these fields.
//
// +kubebuilder:validation:XValidation:rule="has(self.consumerType) || has(self.consumerTypeRef)",message="spec.consumerType is required"
// +kubebuilder:validation:XValidation:rule="!has(self.consumerType) || !has(self.consumerTypeRef) || self.consumerType.apiGroup == self.consumerTypeRef.apiGroup && self.consumerType.kind == self.consumerTypeRef.kind",message="spec.consumerType and spec.consumerTypeRef must be equal: they are two names of one field"
// +kubebuilder:validation:XValidation:rule="!has(self.consumerType) || has(oldSelf.consumerType) || !has(oldSelf.consumerTypeRef) || self.consumerType.apiGroup == oldSelf.consumerTypeRef.apiGroup && self.consumerType.kind == oldSelf.consumerTypeRef.kind",message="spec.consumerType is immutable"
// +kubebuilder:validation:XValidation:rule="!has(self.consumerTypeRef) || has(oldSelf.consumerTypeRef) || !has(oldSelf.consumerType) || self.consumerTypeRef.apiGroup == oldSelf.consumerType.apiGroup && self.consumerTypeRef.kind == oldSelf.consumerType.kind",message="spec.consumerTypeRef is immutable"
type ResourceRegistrationSpec struct {
	// baseUnit is the unit of every amount of this type in grants, claims and buckets, in the singular and at most 50
	// characters, such as byte. It can change only while no grant gives the type and no claim holds any of it, because
	// Bursar does not convert amounts.
	// +kubebuilder:validation:MaxLength=50
	BaseUnit string `json:"baseUnit"`

	// claimingResources are the permitted kinds of object in claims for this type, at most 20. Empty (the default), no
	// object can use the quota through a policy; directly created claims may then be for objects of any kind. Removing a
	// kind leaves existing claims as they are.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	ClaimingResources []ClaimingResource `json:"claimingResources,omitempty"`

	// consumerType is the kind of consumer with a quota of this type. It is required and immutable. Bursar also fills in
	// consumerTypeRef, its earlier name.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.consumerType is immutable"
	ConsumerType ConsumerTypeRef `json:"consumerType,omitzero"`

	// consumerTypeRef is the earlier name of consumerType, and stands for it. Bursar fills in the other one, so each object
	// has both, and they are equal.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.consumerTypeRef is immutable"
	ConsumerTypeRef ConsumerTypeRef `json:"consumerTypeRef,omitzero"`

	// description describes the counted thing in 1 to 500 characters, for people. It has no effect on decisions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=500
	Description string `json:"description,omitempty"`

	// dimensions are the permitted keys in the dimensions of claims and the dimension selectors of grants for this type.
	// There are at most 16, of 1 to 317 characters each, such as networking.example.com/location. Empty (the default),
	// the type has no dimensions. Removing a key leaves granted claims as they are; grants and policies with the key are
	// no longer Active or Ready.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	Dimensions []string `json:"dimensions,omitempty"`

	// displayUnit is the unit of amounts in messages and summaries, in the singular and at most 50 characters, such as
	// GiB. It can change at any time: displayed amounts follow, decisions do not depend on it.
	// +kubebuilder:validation:MaxLength=50
	DisplayUnit string `json:"displayUnit"`

	// maxPerConsumer is the highest sum of the grants of one consumer, in base units, at least 1. A grant beyond it does
	// not count, and its condition Active has the reason CapReached. Counting grants continue to count after a cut of the
	// cap. Absent (the default), there is no cap.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerConsumer *int64 `json:"maxPerConsumer,omitempty"`

	// maxTotal is the highest sum of the grants of all consumers, in base units, at least 1. It applies as maxPerConsumer
	// does. A waiting grant counts as soon as there is room. Absent (the default), there is no cap.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxTotal *int64 `json:"maxTotal,omitempty"`

	// resourceType is the name of this type in grants and claims, of 1 to 253 characters in any form, such as
	// resourcemanager.miloapis.com/projects. Of two registrations with the same name only the older one becomes active. It
	// is immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.resourceType is immutable"
	ResourceType string `json:"resourceType"`

	// type is the measure of the resource type. Entity counts objects, each as 1. Allocation adds up the requested amounts
	// of objects. Feature is on for a consumer while its grants give more than 0, usually 1, and otherwise off; Bursar
	// counts claims of it, and never denies them. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.type is immutable"
	Type RegistrationType `json:"type"`

	// unitConversionFactor is the number of base units in one display unit, at least 1. It divides displayed amounts. It
	// can change at any time: displayed amounts follow, decisions do not depend on it.
	// +kubebuilder:validation:Minimum=1
	UnitConversionFactor int64 `json:"unitConversionFactor"`
}

// ConsumerTypeRef names a kind of consumer.
type ConsumerTypeRef struct {
	// apiGroup is the API group of the consumer's kind, a DNS subdomain such as resourcemanager.miloapis.com.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup"`

	// kind is the consumer's kind, such as Organization. The registration becomes active once the API server serves
	// this kind.
	Kind string `json:"kind"`
}

// ClaimingResource names a kind of object for claims of a resource type.
type ClaimingResource struct {
	// apiGroup is the API group of the kind, a DNS subdomain. Empty (the default), it is the core group.
	// +optional
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the kind of object, in 1 to 63 characters, such as Project.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// ResourceRegistrationStatus is the state of a registration.
type ResourceRegistrationStatus struct {
	// conditions has the condition Active. It is True with reason RegistrationActive if grants and claims can use the
	// type, and False with reason ValidationFailed (the message has the errors) or RegistrationPending (not processed yet)
	// if they cannot. A registration under deletion also has the condition InUse with reason RegistrationInUse, while
	// grants or enabled ClaimCreationPolicies use its type. Its message names them. The registration stays until nothing
	// uses it, and accepts no new uses. While Active is False, Reconciling is True, or Stalled beside an older
	// registration of the type.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.type == 'Active' ? c.reason in ['RegistrationActive', 'ValidationFailed', 'RegistrationPending'] : true)",message="Active condition reason must be valid"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation behind the conditions. If it is lower than the current one, they are
	// out of date.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Consumer returns the kind of consumer with a quota of the type, whichever of its two fields has it.
func (s *ResourceRegistrationSpec) Consumer() ConsumerTypeRef {
	if s.ConsumerType != (ConsumerTypeRef{}) {
		return s.ConsumerType
	}
	return s.ConsumerTypeRef
}

// Description returns the description of the resource type for people: the annotation [AnnotationDescription] or, if it
// has none, spec.description. It is empty if both are, and has at most [DescriptionMax] characters.
func (r *ResourceRegistration) Description() string {
	text := strings.Join(strings.Fields(r.Annotations[AnnotationDescription]), " ")
	if text == "" {
		text = strings.TrimSpace(r.Spec.Description)
	}
	if characters := []rune(text); len(characters) > DescriptionMax {
		return string(characters[:DescriptionMax-1]) + "…"
	}
	return text
}

// Owner returns the service of the resource type, see [LabelOwner]. It is empty without the label.
func (r *ResourceRegistration) Owner() string { return r.Labels[LabelOwner] }

// DisplayName returns the name of the resource type for people, see [AnnotationDisplayName]. It is one line without
// control characters. It is empty if there is none, or if it is too long, because it is older than the check.
func (r *ResourceRegistration) DisplayName() string {
	name := strings.Join(strings.Fields(r.Annotations[AnnotationDisplayName]), " ")
	name = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
			return -1
		}
		return c
	}, name)
	if utf8.RuneCountInString(name) > DisplayNameMax {
		return ""
	}
	return name
}

// ResourceRegistrationList is a list of registrations.
//
// +kubebuilder:object:root=true
type ResourceRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceRegistration `json:"items"`
}
