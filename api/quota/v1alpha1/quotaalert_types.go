package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QuotaAlert sets the percentages of its limits at which a consumer counts as near them. It is in the namespace of the
// consumer's EffectiveResourceGrants. Its percentages take precedence over those of grants, registrations and the
// platform, within the bounds of the platform. The lowest percentage of a resource type in several QuotaAlerts of a
// consumer counts.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=quotaalerts,scope=Namespaced,shortName=qalert,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Consumer Type",type=string,JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuotaAlert struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the percentages.
	Spec QuotaAlertSpec `json:"spec"`
}

// QuotaAlertSpec has the percentages.
// +kubebuilder:validation:XValidation:rule="self.consumerRef == oldSelf.consumerRef",message="consumerRef is immutable: create another QuotaAlert"
type QuotaAlertSpec struct {
	// consumerRef is the consumer with these percentages. It is immutable.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// thresholds are the percentages, 1 to 50, at most one of each resource type.
	// +listType=map
	// +listMapKey=resourceType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	Thresholds []QuotaAlertThreshold `json:"thresholds"`
}

// QuotaAlertThreshold is the percentage of a resource type.
type QuotaAlertThreshold struct {
	// resourceType is the resource type, in 1 to 253 characters: the spec.resourceType of a registration.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`

	// percent is the percentage of the limit at which the consumer counts as near it, 1 to 100. The platform may have
	// narrower bounds. Bursar rejects a percentage outside of them. One from before a change of the bounds counts as the
	// nearest bound.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent"`
}

// QuotaAlertList is a list of QuotaAlerts.
//
// +kubebuilder:object:root=true
type QuotaAlertList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaAlert `json:"items"`
}
