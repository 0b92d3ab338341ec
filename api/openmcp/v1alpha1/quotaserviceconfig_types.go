package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QuotaMode determines how the QuotaIncreases of a namespace and the base work together.
// +kubebuilder:validation:Enum=cumulative;maximum;singular
type QuotaMode string

const (
	// ModeCumulative adds up the base and all increases.
	ModeCumulative QuotaMode = "cumulative"

	// ModeMaximum takes, for each resource, the highest amount of the base and all increases.
	ModeMaximum QuotaMode = "maximum"

	// ModeSingular takes, for each resource, the higher amount of the base and of the increase that the namespace names
	// by the label quota.openmcp.cloud/use.
	ModeSingular QuotaMode = "singular"
)

// Types of the conditions of QuotaServiceConfigs. Definitions have ConditionReady too.
const (
	// ConditionReady indicates whether the definitions are effective in all their namespaces.
	ConditionReady = "Ready"

	// ConditionConflict indicates whether another QuotaServiceConfig holds namespaces of a definition.
	ConditionConflict = "Conflict"
)

// Reasons of the conditions of QuotaServiceConfigs and of definitions.
const (
	// ReasonInForce goes with Ready=True: the definitions are effective in all their namespaces.
	ReasonInForce = "InForce"

	// ReasonValidationFailed goes with Ready=False: the definition is invalid. Other definitions are not affected.
	ReasonValidationFailed = "ValidationFailed"

	// ReasonNotChecked goes with Ready=Unknown: the API server could not validate the definition.
	ReasonNotChecked = "NotChecked"

	// ReasonQuotaExists goes with Ready=False: some namespaces have a ResourceQuota of the definition's name that
	// Bursar did not make.
	ReasonQuotaExists = "QuotaExists"

	// ReasonWriteFailed goes with Ready=False: in some namespaces the API server rejects the writes.
	ReasonWriteFailed = "WriteFailed"

	// ReasonBaseCapped goes with Ready=False: in some namespaces a ResourceQuotaAllocation has no room for the base.
	ReasonBaseCapped = "BaseCapped"

	// ReasonNamespacesHeld goes with Conflict=True: another QuotaServiceConfig holds namespaces of a definition.
	ReasonNamespacesHeld = "NamespacesHeld"

	// ReasonNoConflict goes with Conflict=False: no other QuotaServiceConfig holds its namespaces.
	ReasonNoConflict = "NoConflict"
)

// QuotaServiceConfig determines the ResourceQuota of each namespace. The first of its definitions that selects a
// namespace makes one there, with the name of the definition, and QuotaIncreases raise it. If several
// QuotaServiceConfigs have a definition for a namespace, the namespace stays with the one in its label, or goes to the
// first by name.
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

	// spec has the definitions.
	Spec QuotaServiceConfigSpec `json:"spec"`

	// status is the state of the definitions.
	// +optional
	Status QuotaServiceConfigStatus `json:"status,omitzero"`
}

// QuotaServiceConfigSpec has the definitions.
type QuotaServiceConfigSpec struct {
	// quotas are the definitions. For each namespace the first definition with a matching selector counts.
	Quotas []QuotaDefinition `json:"quotas"`
}

// QuotaDefinition defines the ResourceQuota of the namespaces that it selects.
type QuotaDefinition struct {
	// name is the name of the definition, which is unique in the QuotaServiceConfig, and of its ResourceQuota in each
	// namespace. It has at most 63 characters, as it is the value of labels too.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.]*[a-z0-9])*$`
	Name string `json:"name"`

	// selector selects namespaces by their labels. Without a selector, all are selected.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// template is the template of the ResourceQuota.
	Template QuotaTemplate `json:"template"`

	// mode determines how QuotaIncreases raise the quota.
	Mode QuotaMode `json:"mode"`

	// deleteIneffectiveQuotas deletes QuotaIncreases without an effect: in maximum mode those that others or the base
	// overshadow, and in singular mode those that the namespace does not name, while it names an existing one.
	// Increases that a cap holds back stay. Default: false.
	// +optional
	DeleteIneffectiveQuotas bool `json:"deleteIneffectiveQuotas,omitempty"`

	// previewDeletion marks the QuotaIncreases that deleteIneffectiveQuotas would delete, whether it is set or not,
	// with the annotation quota.openmcp.cloud/to-be-deleted. None is deleted. Default: false.
	// +optional
	PreviewDeletion bool `json:"previewDeletion,omitempty"`
}

// QuotaTemplate is the template of a ResourceQuota.
type QuotaTemplate struct {
	// annotations are set on each ResourceQuota.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// labels are set on each ResourceQuota.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// spec is the spec of each ResourceQuota, before any QuotaIncrease. When its scopes change, the ResourceQuotas are
	// replaced, as Kubernetes does not permit a change.
	// +optional
	Spec corev1.ResourceQuotaSpec `json:"spec,omitempty"`
}

// QuotaServiceConfigStatus is the state of the definitions.
type QuotaServiceConfigStatus struct {
	// conditions are Ready and Conflict. Ready is True with reason InForce while every definition is effective in all of
	// its namespaces; otherwise it has the reason of a definition: ValidationFailed, NotChecked, QuotaExists, WriteFailed
	// or BaseCapped. Conflict is True with reason NamespacesHeld while another QuotaServiceConfig holds namespaces of a
	// definition, and False with reason NoConflict. The messages name the obstacles and their namespaces.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status is about. If it is lower than the current one, the
	// status is out of date.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// quotas has the status of each definition, in their order.
	// +optional
	// +listType=atomic
	Quotas []QuotaDefinitionStatus `json:"quotas,omitempty"`
}

// QuotaDefinitionStatus is the state of a definition.
type QuotaDefinitionStatus struct {
	// name is the name of the definition.
	Name string `json:"name"`

	// namespaces is the number of namespaces with a ResourceQuota of the definition.
	Namespaces int32 `json:"namespaces"`

	// conditions has the condition Ready: whether the definition is effective in all of its namespaces. Its reason is
	// InForce, ValidationFailed, NotChecked, QuotaExists, WriteFailed or BaseCapped, and its message has the next step.
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
