package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionEffective says whether a QuotaIncrease contributes to the ResourceQuota of its namespace.
const ConditionEffective = "Effective"

// Reasons for the Effective condition of QuotaIncreases.
const (
	// ReasonInEffect goes with Effective=True: all that the increase can contribute counts.
	ReasonInEffect = "InEffect"

	// ReasonCapReached says that a cap on the namespace's ResourceQuota holds the increase back: Effective is
	// False where it holds back everything, and True where some of it counts.
	ReasonCapReached = "CapReached"

	// ReasonOvershadowed goes with Effective=False in maximum mode: the base or another increase gives as much
	// or more of every resource.
	ReasonOvershadowed = "Overshadowed"

	// ReasonNotSelected goes with Effective=False in singular mode: the namespace does not name this increase.
	ReasonNotSelected = "NotSelected"

	// ReasonNoDefinition goes with Effective=False: no definition of a QuotaServiceConfig is for the namespace.
	ReasonNoDefinition = "NoDefinition"

	// ReasonInvalid goes with Effective=False: the increase cannot be used as it is.
	ReasonInvalid = "Invalid"

	// ReasonIgnored goes with Effective=Unknown: the namespace is to be left alone.
	ReasonIgnored = "Ignored"

	// ReasonQuotaNotWritten goes with Effective=Unknown: the ResourceQuota could not be brought in line.
	ReasonQuotaNotWritten = "QuotaNotWritten"
)

// QuotaIncrease raises the ResourceQuota of its namespace. How several of them and the base work together
// is for the mode of the namespace's definition in a QuotaServiceConfig to say.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=quotaincreases,scope=Namespaced,shortName=qi,categories=bursar
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.metadata.labels.quota\.openmcp\.cloud/mode`
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=='Effective')].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.metadata.annotations.quota\.openmcp\.cloud/effect`,priority=1
type QuotaIncrease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says by how much.
	Spec QuotaIncreaseSpec `json:"spec"`

	// status tells what the increase does.
	// +optional
	Status QuotaIncreaseStatus `json:"status,omitzero"`
}

// QuotaIncreaseSpec says by how much a quota is raised.
type QuotaIncreaseSpec struct {
	// hard holds an amount for each resource, named as in spec.hard of a ResourceQuota, such as
	// count/secrets or requests.cpu. In cumulative mode it is added; in the others it is what the quota
	// is raised to. No amount may be negative. A resource that neither the base nor any other increase limits
	// becomes limited by this.
	Hard corev1.ResourceList `json:"hard"`
}

// QuotaIncreaseStatus is what Bursar made of an increase.
type QuotaIncreaseStatus struct {
	// conditions holds the condition Effective: whether the increase contributes to the ResourceQuota of its
	// namespace. Its reason is InEffect, CapReached, Overshadowed, NotSelected, NoDefinition, Invalid, Ignored
	// or QuotaNotWritten, and its message says what that means here and what to do.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the conditions are about. When it is
	// lower than the current one, they are out of date.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// QuotaIncreaseList is a list of increases.
//
// +kubebuilder:object:root=true
type QuotaIncreaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaIncrease `json:"items"`
}
