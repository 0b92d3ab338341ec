package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionEffective indicates whether a QuotaIncrease contributes to the ResourceQuota of its namespace.
const ConditionEffective = "Effective"

// Types of the conditions of all kinds for GitOps tools. Each repeats the reason and the message of the condition that
// explains it.
const (
	// ConditionReconciling is True while an object does not have its whole effect, and gets it without another change of
	// it. Otherwise the condition is absent.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True while an object has no effect until somebody changes it. Otherwise the condition is absent.
	ConditionStalled = "Stalled"
)

// Reasons for the Effective condition of QuotaIncreases.
const (
	// ReasonInEffect goes with Effective=True: the whole contribution of the increase counts.
	ReasonInEffect = "InEffect"

	// ReasonCapReached means that a cap on the namespace's ResourceQuota holds the increase back. Effective is False if
	// it holds back the whole contribution, and True if a part counts.
	ReasonCapReached = "CapReached"

	// ReasonOvershadowed goes with Effective=False in maximum mode: the base or another increase gives as much or more
	// of every resource.
	ReasonOvershadowed = "Overshadowed"

	// ReasonNotSelected goes with Effective=False in singular mode: the namespace does not name this increase.
	ReasonNotSelected = "NotSelected"

	// ReasonNoDefinition goes with Effective=False: no QuotaServiceConfig has a definition for the namespace.
	ReasonNoDefinition = "NoDefinition"

	// ReasonInvalid goes with Effective=False: the increase is invalid.
	ReasonInvalid = "Invalid"

	// ReasonIgnored goes with Effective=Unknown: Bursar must not change the namespace.
	ReasonIgnored = "Ignored"

	// ReasonQuotaNotWritten goes with Effective=Unknown: the write of the ResourceQuota failed.
	ReasonQuotaNotWritten = "QuotaNotWritten"
)

// QuotaIncrease raises the ResourceQuota of its namespace. The mode of the namespace's definition in a
// QuotaServiceConfig determines how several increases and the base work together.
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

	// spec is the increase.
	Spec QuotaIncreaseSpec `json:"spec"`

	// status is the effect of the increase.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status QuotaIncreaseStatus `json:"status,omitzero"`
}

// QuotaIncreaseSpec is the increase of a quota.
type QuotaIncreaseSpec struct {
	// hard has an amount for each resource, named as in spec.hard of a ResourceQuota, such as count/secrets or
	// requests.cpu. In cumulative mode Bursar adds the amount; in the other modes it raises the quota to the amount. No
	// amount may be negative. The amount becomes the limit of a resource without any other limit.
	Hard corev1.ResourceList `json:"hard"`
}

// QuotaIncreaseStatus is the effect of an increase.
type QuotaIncreaseStatus struct {
	// conditions has the condition Effective: whether the increase contributes to the ResourceQuota of its namespace.
	// Its reason is InEffect, CapReached, Overshadowed, NotSelected, NoDefinition, Invalid, Ignored or QuotaNotWritten.
	// Its message explains the reason and the next step. Unless its reason is InEffect, the increase also has Reconciling
	// or, if it is invalid, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation behind the conditions. If it is lower than the current one,
	// they are out of date.
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
