package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons for the Granted condition of claims and for the entries of status.allocations, besides
// [ReasonValidationFailed].
const (
	// ReasonQuotaAvailable goes with Granted=True: everything asked for has been charged.
	ReasonQuotaAvailable = "QuotaAvailable"

	// ReasonQuotaExceeded goes with Granted=False: at least one request does not fit.
	ReasonQuotaExceeded = "QuotaExceeded"

	// ReasonPendingEvaluation goes with Granted=False: the claim was not decided yet.
	ReasonPendingEvaluation = "PendingEvaluation"
)

// AllocationStatus says what became of one request of a claim.
// +kubebuilder:validation:Enum=Granted;Denied;Pending
type AllocationStatus string

const (
	// AllocationGranted means that the amount asked for is charged.
	AllocationGranted AllocationStatus = "Granted"

	// AllocationDenied means that nothing is charged, because the claim cannot be granted.
	AllocationDenied AllocationStatus = "Denied"

	// AllocationPending means that nothing is charged, because nothing is decided yet.
	AllocationPending AllocationStatus = "Pending"
)

// ResourceClaim takes capacity from a consumer's quota for one object. It is granted whole or not
// at all, and holds what it was granted until it is deleted. Most claims are made by a
// ClaimCreationPolicy while the object is being created; those are granted from the start and go
// away with the object. A claim that was created by itself and does not fit stays and is granted
// when capacity appears.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourceclaims,scope=Namespaced,shortName=rclaim,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.resourceRef.apiGroup`
// +kubebuilder:selectablefield:JSONPath=`.spec.resourceRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.resourceRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.resourceRef.namespace`
// +kubebuilder:printcolumn:name="Granted",type=string,JSONPath=`.status.conditions[?(@.type=='Granted')].status`
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.requests[0].resourceType`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.resourceRef.kind`
// +kubebuilder:printcolumn:name="Object",type=string,JSONPath=`.spec.resourceRef.name`
// +kubebuilder:printcolumn:name="Requests",type=string,JSONPath=`.status.requested`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Granted')].reason`
// +kubebuilder:printcolumn:name="Consumer Type",type=string,JSONPath=`.spec.consumerRef.kind`,priority=1
// +kubebuilder:printcolumn:name="Object Namespace",type=string,JSONPath=`.spec.resourceRef.namespace`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=='Granted')].message`,priority=1
type ResourceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is who takes how much of what, and for which object. It cannot be changed by hand: to
	// ask for something else, create another claim. The requests of a policy's claim follow the
	// object where the policy has the operation UPDATE.
	Spec ResourceClaimSpec `json:"spec"`

	// status is what was decided about the claim.
	// +optional
	// +kubebuilder:default={conditions:{{type:"Granted",status:"False",reason:"PendingEvaluation",message:"Awaiting capacity evaluation",lastTransitionTime:"1970-01-01T00:00:00Z"}}}
	Status ResourceClaimStatus `json:"status,omitzero"`
}

// ResourceClaimSpec is who takes how much of what, and for which object. Nobody but Bursar can
// change it once the claim exists, and Bursar only the requests of a policy's claim.
type ResourceClaimSpec struct {
	// consumerRef is the consumer whose quota is charged. Its kind has to be the one in the
	// spec.consumerTypeRef of every resource type asked for. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.consumerRef is immutable: create another claim"
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// requests is what is asked for: 1 to 20 entries, each of another resource type. All of them
	// are granted together, or none is.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(other, other.resourceType == r.resourceType))",message="requests must name each resourceType only once"
	Requests []ResourceRequest `json:"requests"`

	// resourceRef is the object that the claim pays for. Its kind has to be among the
	// spec.claimingResources of every resource type asked for that lists any. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.resourceRef is immutable: create another claim"
	ResourceRef UnversionedObjectReference `json:"resourceRef"`
}

// ResourceTypes returns those that are requested, in the order of the requests.
func (s *ResourceClaimSpec) ResourceTypes() []string {
	types := make([]string, 0, len(s.Requests))
	for _, request := range s.Requests {
		types = append(types, request.ResourceType)
	}
	return types
}

// ResourceClaimStatus is what was decided about a claim.
type ResourceClaimStatus struct {
	// allocations tell for each request what became of it. As a claim is granted whole or not at
	// all, a request may be denied for the sake of another one; its message says so.
	// +optional
	// +listType=map
	// +listMapKey=resourceType
	Allocations []RequestAllocation `json:"allocations,omitempty"`

	// conditions holds the condition Granted. It is True with reason QuotaAvailable when
	// everything is charged, and False with reason QuotaExceeded (something does not fit),
	// ValidationFailed (the claim cannot be decided as it is) or PendingEvaluation (not decided
	// yet, the default) when nothing is.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.type == 'Granted' ? c.reason in ['QuotaAvailable', 'QuotaExceeded', 'ValidationFailed', 'PendingEvaluation'] : true)",message="Granted condition reason must be valid"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// requested is what the claim asks for, for people to read, in display units as of the decision: of
	// the first requests, such as "cpu=4 cores, projects=1 project", in at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Requested string `json:"requested,omitempty"`
}

// RequestAllocation is what became of one request of a claim.
type RequestAllocation struct {
	// allocatedAmount is how much is charged, in base units: all that the request asks for when
	// status is Granted, and 0 otherwise.
	// +optional
	AllocatedAmount int64 `json:"allocatedAmount"`

	// allocatingBucket names the AllowanceBucket that shows the charge. It is empty unless status
	// is Granted.
	// +optional
	AllocatingBucket string `json:"allocatingBucket,omitempty"`

	// lastTransitionTime is when status, reason or message last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// message says in a sentence why status is what it is.
	// +optional
	Message string `json:"message,omitempty"`

	// reason says in a word why status is what it is: QuotaAvailable, QuotaExceeded,
	// ValidationFailed or PendingEvaluation.
	// +optional
	Reason string `json:"reason,omitempty"`

	// resourceType is that of the request.
	ResourceType string `json:"resourceType"`

	// status is Granted, Denied or Pending (not decided yet).
	Status AllocationStatus `json:"status"`
}

// ResourceClaimList is a list of claims.
//
// +kubebuilder:object:root=true
type ResourceClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceClaim `json:"items"`
}
