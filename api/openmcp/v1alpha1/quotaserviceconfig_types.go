package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QuotaMode says how the QuotaIncreases of a namespace and the base work together.
// +kubebuilder:validation:Enum=cumulative;maximum;singular
type QuotaMode string

const (
	// ModeCumulative adds up the base and all increases.
	ModeCumulative QuotaMode = "cumulative"

	// ModeMaximum takes, for each resource, the highest amount of the base and all increases.
	ModeMaximum QuotaMode = "maximum"

	// ModeSingular takes, for each resource, the higher amount of the base and of the one increase that the
	// namespace names by the label quota.openmcp.cloud/use.
	ModeSingular QuotaMode = "singular"
)

// Types of the conditions of QuotaServiceConfigs and, of ConditionReady, of each definition.
const (
	// ConditionReady says whether the definitions are in force in every namespace that they are for.
	ConditionReady = "Ready"

	// ConditionConflict says whether another QuotaServiceConfig holds namespaces that a definition is for too.
	ConditionConflict = "Conflict"
)

// Reasons of the conditions of QuotaServiceConfigs and of definitions.
const (
	// ReasonInForce goes with Ready=True.
	ReasonInForce = "InForce"

	// ReasonValidationFailed goes with Ready=False: the definition cannot be used as it is, and only it is not.
	ReasonValidationFailed = "ValidationFailed"

	// ReasonNotChecked goes with Ready=Unknown: the API server gave no answer whether the definition can be used.
	ReasonNotChecked = "NotChecked"

	// ReasonQuotaExists goes with Ready=False: in some namespaces there is a ResourceQuota of the definition's
	// name that somebody else made.
	ReasonQuotaExists = "QuotaExists"

	// ReasonWriteFailed goes with Ready=False: in some namespaces the API server refuses what should be written.
	ReasonWriteFailed = "WriteFailed"

	// ReasonBaseCapped goes with Ready=False: in some namespaces a ResourceQuotaAllocation has no room for the base.
	ReasonBaseCapped = "BaseCapped"

	// ReasonNamespacesHeld goes with Conflict=True.
	ReasonNamespacesHeld = "NamespacesHeld"

	// ReasonNoConflict goes with Conflict=False.
	ReasonNoConflict = "NoConflict"
)

// QuotaServiceConfig says which ResourceQuota each namespace has. The first of its definitions that selects a
// namespace makes one there, of its own name, and QuotaIncreases raise it. Where several
// QuotaServiceConfigs have a definition for a namespace, it stays with the one that it is labelled with, or
// goes to the first by name.
//
// Namespaces kube-system, kube-public, kube-node-lease and Bursar's own get no ResourceQuota.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=quotaserviceconfigs,scope=Cluster,shortName=qcfg,categories=bursar
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Conflict",type=string,JSONPath=`.status.conditions[?(@.type=='Conflict')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuotaServiceConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the definitions.
	Spec QuotaServiceConfigSpec `json:"spec"`

	// status tells what became of them.
	// +optional
	Status QuotaServiceConfigStatus `json:"status,omitzero"`
}

// QuotaServiceConfigSpec holds the definitions.
type QuotaServiceConfigSpec struct {
	// quotas are the definitions. For each namespace the first counts whose selector matches.
	Quotas []QuotaDefinition `json:"quotas"`
}

// QuotaDefinition is a kind of quota that namespaces can have.
type QuotaDefinition struct {
	// name is the name of the definition, which no other of the QuotaServiceConfig has, and of the ResourceQuota
	// that it makes in each namespace. It is at most 63 characters long, as it is the value of labels too.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.]*[a-z0-9])*$`
	Name string `json:"name"`

	// selector selects namespaces by their labels. Without one, all are selected.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// template is what the ResourceQuota is made from.
	Template QuotaTemplate `json:"template"`

	// mode says how QuotaIncreases raise the quota.
	Mode QuotaMode `json:"mode"`

	// deleteIneffectiveQuotas has QuotaIncreases deleted that have no effect: in maximum mode those that
	// others or the base overshadow, and in singular mode those that the namespace does not name, while it names
	// one that exists. Those that a cap holds back stay. Default: false.
	// +optional
	DeleteIneffectiveQuotas bool `json:"deleteIneffectiveQuotas,omitempty"`

	// previewDeletion has the QuotaIncreases that deleteIneffectiveQuotas would delete be marked with the
	// annotation quota.openmcp.cloud/to-be-deleted, whether it is set or not, and none deleted. Default: false.
	// +optional
	PreviewDeletion bool `json:"previewDeletion,omitempty"`
}

// QuotaTemplate is what a ResourceQuota is made from.
type QuotaTemplate struct {
	// annotations are put on each ResourceQuota.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// labels are put on each ResourceQuota.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// spec is that of each ResourceQuota, before any QuotaIncrease. When its scopes change, the ResourceQuotas are
	// made anew, as Kubernetes does not let them change.
	// +optional
	Spec corev1.ResourceQuotaSpec `json:"spec,omitempty"`
}

// QuotaServiceConfigStatus is what became of the definitions.
type QuotaServiceConfigStatus struct {
	// conditions are Ready, which is True while every definition is in force in all of its namespaces, and
	// Conflict, which is True while another QuotaServiceConfig holds namespaces that a definition here is for
	// too. The messages name what is in the way, and where.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status is about. When it is
	// lower than the current one, it is out of date.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// quotas tells of each definition, in their order.
	// +optional
	// +listType=atomic
	Quotas []QuotaDefinitionStatus `json:"quotas,omitempty"`
}

// QuotaDefinitionStatus is what became of a definition.
type QuotaDefinitionStatus struct {
	// name is that of the definition.
	Name string `json:"name"`

	// namespaces is how many namespaces have a ResourceQuota by it.
	Namespaces int32 `json:"namespaces"`

	// conditions holds the condition Ready: whether the definition is in force in all namespaces that it is for.
	// Its reason is InForce, ValidationFailed, NotChecked, QuotaExists, WriteFailed or BaseCapped, and its message says what to
	// do.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// QuotaServiceConfigList is a list of configurations.
//
// +kubebuilder:object:root=true
type QuotaServiceConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaServiceConfig `json:"items"`
}
