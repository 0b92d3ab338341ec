package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons for the Active condition of grants, besides [ReasonValidationFailed].
const (
	// ReasonGrantActive goes with Active=True: the grant's allowances count.
	ReasonGrantActive = "GrantActive"

	// ReasonGrantPending goes with Active=Unknown: the grant has not been processed yet.
	ReasonGrantPending = "GrantPending"
)

// ResourceGrant grants a consumer capacity of one or more resource types. The limit of a consumer is the sum of its
// active grants: those with resource types that are all registered for its kind. Deleting a grant lowers the limit and
// takes nothing back from claims that were granted before.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourcegrants,scope=Namespaced,shortName=rgrant,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].status`
// +kubebuilder:printcolumn:name="Consumer Group",type=string,JSONPath=`.spec.consumerRef.apiGroup`
// +kubebuilder:printcolumn:name="Consumer Type",type=string,JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Gives",type=string,JSONPath=`.status.gives`
// +kubebuilder:printcolumn:name="Consumer Namespace",type=string,JSONPath=`.spec.consumerRef.namespace`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].reason`,priority=1
type ResourceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the consumer and the granted capacity.
	Spec ResourceGrantSpec `json:"spec"`

	// status indicates whether the capacity counts.
	// +optional
	// +kubebuilder:default={conditions:{{type:"Active",status:"Unknown",reason:"GrantPending",message:"Not looked at yet",lastTransitionTime:"1970-01-01T00:00:00Z"}}}
	Status ResourceGrantStatus `json:"status,omitzero"`
}

// ResourceGrantSpec is the consumer and the granted capacity.
type ResourceGrantSpec struct {
	// allowances are the granted capacity, 1 to 20 entries. Either all of them count or none does.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Allowances []Allowance `json:"allowances"`

	// consumerRef is the consumer that receives the capacity. Its kind must be the one in the spec.consumerTypeRef of
	// every granted resource type.
	ConsumerRef ConsumerRef `json:"consumerRef"`
}

// ResourceTypes returns the granted resource types, in the order of the allowances.
func (s *ResourceGrantSpec) ResourceTypes() []string {
	types := make([]string, 0, len(s.Allowances))
	for _, allowance := range s.Allowances {
		types = append(types, allowance.ResourceType)
	}
	return types
}

// ResourceGrantStatus is the state of a grant.
type ResourceGrantStatus struct {
	// conditions has the condition Active. It is True with reason GrantActive while the allowances count, False with
	// reason ValidationFailed (the message has the errors) if they cannot, and Unknown with reason GrantPending until
	// the grant has been processed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.type == 'Active' ? c.reason in ['GrantActive', 'ValidationFailed', 'GrantPending'] : true)",message="Active condition reason must be valid"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// gives has the amounts of the grant, for people, in display units: those of the first allowances, such as "cpu=540
	// cores (location=DLS), projects=10 projects", in at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Gives string `json:"gives,omitempty"`

	// observedGeneration is the metadata.generation that the conditions are about. If it is lower than the current one,
	// they are out of date.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ResourceGrantList is a list of grants.
//
// +kubebuilder:object:root=true
type ResourceGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceGrant `json:"items"`
}
