package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionApproved tells the state of a QuotaRequest: Unknown until it is decided, then True or False.
const ConditionApproved = "Approved"

// Reasons for the condition [ConditionApproved].
const (
	// ReasonPending goes with Approved=Unknown: the request waits for a decision.
	ReasonPending = "Pending"

	// ReasonApproved goes with Approved=True: everything was approved and is granted.
	ReasonApproved = "Approved"

	// ReasonPartiallyApproved goes with Approved=True: less than was asked for, or for a shorter time, was approved and
	// is granted.
	ReasonPartiallyApproved = "PartiallyApproved"

	// ReasonDenied goes with Approved=False: somebody who may decide, or a policy, denied it.
	ReasonDenied = "Denied"

	// ReasonWithdrawn goes with Approved=False: it was withdrawn before a decision.
	ReasonWithdrawn = "Withdrawn"

	// The reason Expired goes with False, too: the request was not decided in time, see [ReasonExpired].
)

// QuotaRequest asks for more quota for a consumer. It is in the namespace of the consumer's EffectiveResourceGrants. Those
// who may create QuotaDecisions there decide on it, or a QuotaRequestPolicy does. An approval makes a ResourceGrant, once.
// A request is never changed but to withdraw it: ask again for something else.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=quotarequests,scope=Namespaced,shortName=qreq,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=='Approved')].reason`
// +kubebuilder:printcolumn:name="Consumer Type",type=string,JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.requester.username`
// +kubebuilder:printcolumn:name="Asks",type=string,JSONPath=`.status.asks`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=='Approved')].message`,priority=1
type QuotaRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	Spec QuotaRequestSpec `json:"spec"`

	// status is what has become of it.
	// +optional
	Status QuotaRequestStatus `json:"status,omitzero"`
}

// QuotaRequestSpec is what is asked for. Only withdrawn can be changed, from false to true.
// +kubebuilder:validation:XValidation:rule="self.consumerRef == oldSelf.consumerRef && self.requests == oldSelf.requests && self.reason == oldSelf.reason",message="a request is immutable: withdraw it, and ask again"
// +kubebuilder:validation:XValidation:rule="has(self.until) == has(oldSelf.until) && (!has(self.until) || self.until == oldSelf.until)",message="until is immutable: withdraw the request, and ask again"
// +kubebuilder:validation:XValidation:rule="has(self.requester) == has(oldSelf.requester) && (!has(self.requester) || self.requester == oldSelf.requester)",message="requester is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.withdrawnBy) || has(self.withdrawnBy) && self.withdrawnBy == oldSelf.withdrawnBy",message="withdrawnBy is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.withdrawn) || !oldSelf.withdrawn || has(self.withdrawn) && self.withdrawn",message="a request that was withdrawn stays so: ask again"
type QuotaRequestSpec struct {
	// consumerRef is the consumer that is to have more.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// requests are the wanted amounts, 1 to 20.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Requests []RequestedQuota `json:"requests"`

	// reason says to those who decide why it is needed, in 1 to 1,000 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Reason string `json:"reason"`

	// until is when the quota may end. Absent (the default), it has no end.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// withdrawn ends the request without a decision. It has no effect on one that is granted or denied.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`

	// withdrawnBy is the user who withdrew it. Bursar sets it from the authenticated update, whatever the client writes.
	// +optional
	WithdrawnBy *RequestUser `json:"withdrawnBy,omitempty"`

	// requester is the user who created the request. Bursar sets it from the authenticated create, whatever the client
	// writes.
	// +optional
	Requester *RequestUser `json:"requester,omitempty"`
}

// RequestedQuota is an amount of a resource type that is asked for.
// +kubebuilder:validation:XValidation:rule="has(self.limit) != has(self.increase)",message="give limit, or increase"
// +kubebuilder:validation:XValidation:rule="!has(self.limit) || !has(self.dimensions) || size(self.dimensions) == 0",message="a limit is of the whole resource type: with dimensions give increase"
type RequestedQuota struct {
	// resourceType is the resource type.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`

	// limit is the wanted limit of the consumer, in base units.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Limit *int64 `json:"limit,omitempty"`

	// increase is what is wanted on top of the present limit, in base units.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Increase *int64 `json:"increase,omitempty"`

	// dimensions restrict the increase to requests with these dimensions: at most 16, with keys of at most 317 characters
	// and values of at most 253.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317)",message="dimensions must have keys of at most 317 characters"
	Dimensions map[string]string `json:"dimensions,omitempty"`
}

// RequestUser is an authenticated user.
type RequestUser struct {
	// username is the user's name.
	Username string `json:"username"`

	// uid is the user's UID, where users have one.
	// +optional
	UID string `json:"uid,omitempty"`
}

// QuotaRequestStatus is what has become of a request.
type QuotaRequestStatus struct {
	// conditions has the condition Approved. It is Unknown with reason Pending, True with reason Approved or
	// PartiallyApproved, or False with reason Denied, Withdrawn or Expired. One that is not Unknown stays as it is.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// asks has the amounts for people, in display units, in at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Asks string `json:"asks,omitempty"`

	// approvers are the groups whose members may decide. Absent, everybody may who has the right to create
	// QuotaDecisions.
	// +optional
	// +listType=set
	Approvers []string `json:"approvers,omitempty"`

	// approvalsNeeded is how many different users have to approve. It is 0 until it is known who decides.
	// +optional
	ApprovalsNeeded int32 `json:"approvalsNeeded,omitempty"`

	// policyRef names the QuotaRequestPolicy and its rule that apply. It is absent if no policy does.
	// +optional
	PolicyRef *RequestPolicyRef `json:"policyRef,omitempty"`

	// decisions are the decisions that count, in their order.
	// +optional
	// +listType=atomic
	Decisions []RequestDecision `json:"decisions,omitempty"`

	// approved is what is granted. It is set before the grant is made, and only grantWaits changes.
	// +optional
	Approved *ApprovedQuota `json:"approved,omitempty"`

	// expiresAt is when the request expires if it is not decided.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// notified is the reason of the condition Approved that the receiver of notifications was told last.
	// +optional
	Notified string `json:"notified,omitempty"`

	// observedGeneration is the metadata.generation that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RequestPolicyRef names a rule of a QuotaRequestPolicy.
type RequestPolicyRef struct {
	// name is the name of the policy.
	Name string `json:"name"`

	// rule is the name of its rule. It is empty for a ceiling.
	// +optional
	Rule string `json:"rule,omitempty"`
}

// RequestDecision is a decision on a request.
type RequestDecision struct {
	// decision is Approve or Deny.
	Decision Decision `json:"decision"`

	// decidedBy is the user who decided. It is absent if Bursar did, by a policy or by a cap of a registration.
	// +optional
	DecidedBy *RequestUser `json:"decidedBy,omitempty"`

	// policyRef names the policy that decided.
	// +optional
	PolicyRef *RequestPolicyRef `json:"policyRef,omitempty"`

	// decidedAt is when.
	DecidedAt metav1.Time `json:"decidedAt"`

	// reason is what the user, or the policy, says.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ApprovedQuota is what is granted on a request.
type ApprovedQuota struct {
	// increases are the amounts on top of the limits at the time of the approval. They lack what the consumer already had.
	// +optional
	// +listType=atomic
	Increases []ApprovedIncrease `json:"increases,omitempty"`

	// until is when the quota ends. Absent, it has no end.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// partial is set if it is less than was asked for, or for a shorter time.
	// +optional
	Partial bool `json:"partial,omitempty"`

	// grantWaits is set while the grant does not count: a cap of a registration is in its way, or it cannot be made.
	// +optional
	GrantWaits bool `json:"grantWaits,omitempty"`

	// grant is the name of the ResourceGrant, in the namespace of the request. It is empty if there was nothing to grant.
	// +optional
	Grant string `json:"grant,omitempty"`
}

// ApprovedIncrease is an amount that is granted.
type ApprovedIncrease struct {
	// resourceType and dimensions are those of the request.
	ResourceType string `json:"resourceType"`
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// increase is the amount, in base units.
	Increase int64 `json:"increase"`
}

// QuotaRequestList is a list of requests.
//
// +kubebuilder:object:root=true
type QuotaRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaRequest `json:"items"`
}
