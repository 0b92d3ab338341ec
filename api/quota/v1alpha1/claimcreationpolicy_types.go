package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClaimCreationPolicy puts a kind of object under quota: while such an object is being created, a
// claim is made from the policy's template, and the object is refused when the claim cannot be
// granted. Every policy for a kind applies. A policy is in force while its Ready condition is True.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=claimcreationpolicies,scope=Cluster,shortName=ccp,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.apiVersion`
// +kubebuilder:selectablefield:JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClaimCreationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is put under quota, and what it costs.
	Spec ClaimCreationPolicySpec `json:"spec"`

	// status is what Bursar found out about the policy.
	// +optional
	Status ClaimCreationPolicyStatus `json:"status,omitzero"`
}

// IsEnabled tells whether the policy is meant to apply. A policy that does not say is enabled.
func (p *ClaimCreationPolicy) IsEnabled() bool {
	return p.Spec.Enabled == nil || *p.Spec.Enabled
}

// ClaimCreationPolicySpec says what is put under quota, and what it costs.
type ClaimCreationPolicySpec struct {
	// enabled turns the policy on (true, the default) or off. While it is off, objects are created
	// without a claim, and stay without one when it is turned on again.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// target is the claim to make.
	Target ClaimTarget `json:"target"`

	// trigger is which objects the policy applies to.
	Trigger ClaimTrigger `json:"trigger"`
}

// ClaimTrigger says which objects a ClaimCreationPolicy applies to.
type ClaimTrigger struct {
	// conditions have to hold all for the policy to apply, at most 10. Empty (the default) means
	// that it applies to every object of the kind. A condition that cannot be evaluated refuses
	// the object.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Conditions []ConditionExpression `json:"conditions,omitempty"`

	// resource is the kind of object.
	Resource ClaimTriggerResource `json:"resource"`
}

// ClaimTriggerResource names a kind of object.
type ClaimTriggerResource struct {
	// apiVersion is the API group and version, such as apps/v1, or v1 for the core group. Objects
	// that are created through another version of the group fall under the policy too.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?v[0-9]+((alpha|beta)[0-9]*)?$`
	APIVersion string `json:"apiVersion"`

	// kind is the kind of object, such as Project.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
}

// ClaimTarget says which claim a ClaimCreationPolicy makes.
type ClaimTarget struct {
	// resourceClaimTemplate is what the claim looks like. Its strings may hold Go templates, which
	// see .trigger (the object), .user and .requestInfo.
	ResourceClaimTemplate ResourceClaimTemplate `json:"resourceClaimTemplate"`
}

// ResourceClaimTemplate is the pattern for the claims of a policy.
type ResourceClaimTemplate struct {
	// metadata is the claim's name, namespace, labels and annotations.
	Metadata ObjectTemplateMetadata `json:"metadata"`

	// spec is what the claim asks for, and of whom.
	Spec ResourceClaimTemplateSpec `json:"spec"`
}

// ResourceClaimTemplateSpec is the pattern for a claim's spec.
type ResourceClaimTemplateSpec struct {
	// consumerRef is the consumer whose quota is charged. Its fields may hold Go templates.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// requests is what each object costs: 1 to 20 entries, each of another resource type, with
	// fixed amounts.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(other, other.resourceType == r.resourceType))",message="requests must name each resourceType only once"
	Requests []ResourceRequest `json:"requests"`

	// resourceRef is the object that the claim pays for. Absent (the default) or not, Bursar fills
	// in the object that is being created.
	// +optional
	ResourceRef *UnversionedObjectReference `json:"resourceRef,omitempty"`
}

// ClaimCreationPolicyStatus is what Bursar found out about a policy.
type ClaimCreationPolicyStatus struct {
	// conditions holds the condition Ready. It is True with reason PolicyReady while the policy is
	// in force, and False with reason ValidationFailed (the message says what is wrong) or
	// PolicyDisabled while it is not.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ClaimCreationPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type ClaimCreationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClaimCreationPolicy `json:"items"`
}
