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

	// ModeSingular takes, for each resource, the higher amount of the base and of one increase. The namespace names the
	// increase by the label quota.openmcp.cloud/use.
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

	// ReasonValidationFailed goes with Ready=False: the definition is invalid. This does not affect other definitions.
	ReasonValidationFailed = "ValidationFailed"

	// ReasonNotChecked goes with Ready=Unknown: the API server could not validate the definition.
	ReasonNotChecked = "NotChecked"

	// ReasonQuotaExists goes with Ready=False: some namespaces have a foreign ResourceQuota of the definition's name.
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

// QuotaServiceConfig determines the ResourceQuota of each namespace. Its first definition with a matching selector
// makes one in the namespace, with the name of the definition, and QuotaIncreases raise it. If several
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
	// +kubebuilder:default={observedGeneration:-1}
	Status QuotaServiceConfigStatus `json:"status,omitzero"`
}

// QuotaServiceConfigSpec has the definitions.
type QuotaServiceConfigSpec struct {
	// quotas are the definitions. For each namespace the first definition with a matching selector counts.
	Quotas []QuotaDefinition `json:"quotas"`
}

// QuotaDefinition defines the ResourceQuota of the selected namespaces.
type QuotaDefinition struct {
	// name is the name of the definition, unique in the QuotaServiceConfig, and of its ResourceQuota in each namespace. It
	// has at most 63 characters, because it is also the value of labels.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.]*[a-z0-9])*$`
	Name string `json:"name"`

	// selector selects namespaces by their labels. Absent (the default), the definition is for all namespaces.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// template is the template of the ResourceQuota.
	Template QuotaTemplate `json:"template"`

	// mode is cumulative, maximum or singular. It determines how QuotaIncreases raise the quota. cumulative adds up the
	// base and all increases. maximum takes, for each resource, the highest amount of the base and all increases. singular
	// takes the higher amount of the base and of the increase in the namespace's label quota.openmcp.cloud/use.
	Mode QuotaMode `json:"mode"`

	// deleteIneffectiveQuotas, if true, deletes QuotaIncreases without an effect. In maximum mode these are increases
	// overshadowed by others or the base. In singular mode these are all but the increase named by the namespace, while
	// that one exists. Increases held back by a cap stay. Default: false.
	// +optional
	DeleteIneffectiveQuotas bool `json:"deleteIneffectiveQuotas,omitempty"`

	// previewDeletion, if true, deletes no QuotaIncrease. It marks the candidates of deleteIneffectiveQuotas, set or not,
	// with the annotation quota.openmcp.cloud/to-be-deleted. Default: false.
	// +optional
	PreviewDeletion bool `json:"previewDeletion,omitempty"`
}

// QuotaTemplate is the template of a ResourceQuota.
type QuotaTemplate struct {
	// annotations are annotations for each ResourceQuota.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// labels are labels for each ResourceQuota.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// spec is the spec of each ResourceQuota, before any QuotaIncrease. After a change of its scopes, Bursar replaces the
	// ResourceQuotas, because Kubernetes does not permit the change.
	// +optional
	Spec corev1.ResourceQuotaSpec `json:"spec,omitempty"`
}

// QuotaServiceConfigStatus is the state of the definitions.
type QuotaServiceConfigStatus struct {
	// conditions are Ready and Conflict. Ready is True with reason InForce while every definition is effective in all of
	// its namespaces; otherwise it has the reason of a definition: ValidationFailed, NotChecked, QuotaExists, WriteFailed
	// or BaseCapped. Conflict is True with reason NamespacesHeld while another QuotaServiceConfig holds namespaces of a
	// definition, and False with reason NoConflict. The messages name the obstacles and their namespaces. Unless all is in
	// order it also has Reconciling or, with an invalid definition, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation behind the status. If it is lower than the current one, the
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
