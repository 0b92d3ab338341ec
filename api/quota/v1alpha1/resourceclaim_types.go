package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons for the Granted condition of claims and for the entries of status.allocations, besides
// [ReasonValidationFailed].
const (
	// ReasonQuotaAvailable goes with Granted=True: Bursar has charged all requests.
	ReasonQuotaAvailable = "QuotaAvailable"

	// ReasonQuotaExceeded goes with Granted=False: at least one request does not fit.
	ReasonQuotaExceeded = "QuotaExceeded"

	// ReasonPendingEvaluation goes with Granted=False: Bursar has not decided on the claim yet.
	ReasonPendingEvaluation = "PendingEvaluation"
)

// AllocationStatus is the decision on one request of a claim.
// +kubebuilder:validation:Enum=Granted;Denied;Pending
type AllocationStatus string

const (
	// AllocationGranted means that Bursar has charged the requested amount.
	AllocationGranted AllocationStatus = "Granted"

	// AllocationDenied means no charge, because the claim does not fit or is invalid.
	AllocationDenied AllocationStatus = "Denied"

	// AllocationPending means no charge, because there is no decision yet.
	AllocationPending AllocationStatus = "Pending"
)

// ResourceClaim claims capacity from a consumer's quota, usually for one object. Bursar grants it whole or not at all.
// It holds its amounts until its deletion and, if it names an object, until the end of the object. A
// ClaimCreationPolicy makes most claims, on the create of the object. Such a claim is granted from the start, and ends
// with the object. A directly created claim waits if it does not fit: Bursar grants it once there is capacity.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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

	// spec is the consumer, the requests and the object of the claim. It is immutable for users: resize a granted claim by
	// the annotation quota.miloapis.com/resize, or create another claim. The requests of a policy's claim follow the
	// object if the policy has the operation UPDATE.
	Spec ResourceClaimSpec `json:"spec"`

	// status is the decision on the claim.
	// +optional
	// +kubebuilder:default={conditions:{{type:"Granted",status:"False",reason:"PendingEvaluation",message:"Awaiting capacity evaluation",lastTransitionTime:"1970-01-01T00:00:00Z"}},observedGeneration:-1}
	Status ResourceClaimStatus `json:"status,omitzero"`
}

// ResourceClaimSpec is the consumer, the requests and the object of a claim. Only Bursar can change it after the
// creation of the claim, and only the requests.
//
// +kubebuilder:validation:XValidation:rule="has(self.resourceRef) == has(oldSelf.resourceRef)",message="spec.resourceRef is immutable: create another claim"
type ResourceClaimSpec struct {
	// consumerRef is the consumer to charge. Its kind must be the one in the spec.consumerType of every requested resource
	// type. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.consumerRef is immutable: create another claim"
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// requests are the requested amounts: 1 to 20 entries, each of another resource type. Bursar grants them together or
	// not at all.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(other, other.resourceType == r.resourceType))",message="requests must name each resourceType only once"
	Requests []ResourceRequest `json:"requests"`

	// resourceRef is the object of the claim. For every requested resource type with spec.claimingResources, its kind must
	// be among them. Absent (the default), the claim is for no object, and holds its amounts until its deletion. It is
	// immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.resourceRef is immutable: create another claim"
	ResourceRef UnversionedObjectReference `json:"resourceRef,omitzero"`
}

// HasObject reports whether the claim names an object. A claim without one holds its amounts until its deletion.
func (s *ResourceClaimSpec) HasObject() bool { return s.ResourceRef != (UnversionedObjectReference{}) }

// ResourceTypes returns the requested resource types, in the order of the requests.
func (s *ResourceClaimSpec) ResourceTypes() []string {
	types := make([]string, 0, len(s.Requests))
	for _, request := range s.Requests {
		types = append(types, request.ResourceType)
	}
	return types
}

// ResourceClaimStatus is the decision on a claim.
type ResourceClaimStatus struct {
	// allocations has the decision on each request. Because Bursar grants a claim whole or not at all, one request may be
	// the reason for the denial of another; the message then explains it.
	// +optional
	// +listType=map
	// +listMapKey=resourceType
	Allocations []RequestAllocation `json:"allocations,omitempty"`

	// conditions has the condition Granted. It is True with reason QuotaAvailable if Bursar has charged everything.
	// Otherwise it is False, without a charge, with reason QuotaExceeded (something does not fit), ValidationFailed (the
	// claim is invalid) or PendingEvaluation (no decision yet, the default). A granted claim with a pending resize also
	// has the condition ResizePending, with one of these reasons. A claim that waits also has Reconciling, and one that
	// nobody can grant has Stalled.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.type == 'Granted' ? c.reason in ['QuotaAvailable', 'QuotaExceeded', 'ValidationFailed', 'PendingEvaluation'] : true)",message="Granted condition reason must be valid"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation behind the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// requested has the requests of the claim, for people, in display units as of the decision: the first ones, such as
	// "cpu=4 cores, projects=1 project", in at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Requested string `json:"requested,omitempty"`
}

// RequestAllocation is the decision on one request of a claim.
type RequestAllocation struct {
	// allocatedAmount is the charged amount, in base units: the whole request if status is Granted, and 0 otherwise.
	// +optional
	AllocatedAmount int64 `json:"allocatedAmount"`

	// allocatingBucket names the AllowanceBucket with the charge. It is empty unless status is Granted.
	// +optional
	AllocatingBucket string `json:"allocatingBucket,omitempty"`

	// lastTransitionTime is the time of the last change of status, reason or message.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// message explains the status in a sentence.
	// +optional
	Message string `json:"message,omitempty"`

	// reason explains the status in a word: QuotaAvailable, QuotaExceeded, ValidationFailed or PendingEvaluation.
	// +optional
	Reason string `json:"reason,omitempty"`

	// resourceType is the resource type of the request.
	ResourceType string `json:"resourceType"`

	// status is Granted, Denied or Pending (no decision yet).
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
