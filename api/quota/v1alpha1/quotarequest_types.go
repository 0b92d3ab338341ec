package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionApproved is the state of a QuotaRequest: Unknown until a decision, then True or False.
const ConditionApproved = "Approved"

// Reasons for the condition [ConditionApproved].
const (
	// ReasonPending goes with Approved=Unknown: the request waits for a decision.
	ReasonPending = "Pending"

	// ReasonApproved goes with Approved=True: the approval covers everything, and the grant counts.
	ReasonApproved = "Approved"

	// ReasonPartiallyApproved goes with Approved=True: the approval covers less, or a shorter time, and the grant counts.
	ReasonPartiallyApproved = "PartiallyApproved"

	// ReasonDenied goes with Approved=False: an approver, a policy or a cap of a registration denied the request.
	ReasonDenied = "Denied"

	// ReasonWithdrawn goes with Approved=False: a user withdrew the request before a decision.
	ReasonWithdrawn = "Withdrawn"

	// The reason Expired goes with False, too: nobody decided in time, see [ReasonExpired].
)

// QuotaRequest asks for more quota for a consumer. It is in the namespace of the consumer's EffectiveResourceGrants.
// Users with the right to create QuotaDecisions there decide on it, or a QuotaRequestPolicy does. On an approval Bursar
// creates one ResourceGrant. A request is immutable, except for its withdrawal: create another request to ask for
// something else.
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

	// spec is the consumer, the amounts and the reason of the request.
	Spec QuotaRequestSpec `json:"spec"`

	// status is the state of the request.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status QuotaRequestStatus `json:"status,omitzero"`
}

// QuotaRequestSpec is the consumer, the amounts and the reason of a request. Only withdrawn can change, from false to
// true.
// +kubebuilder:validation:XValidation:rule="self.consumerRef == oldSelf.consumerRef && self.requests == oldSelf.requests && self.reason == oldSelf.reason",message="a request is immutable: withdraw it, and ask again"
// +kubebuilder:validation:XValidation:rule="has(self.until) == has(oldSelf.until) && (!has(self.until) || self.until == oldSelf.until)",message="until is immutable: withdraw the request, and ask again"
// +kubebuilder:validation:XValidation:rule="has(self.requester) == has(oldSelf.requester) && (!has(self.requester) || self.requester == oldSelf.requester)",message="requester is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.withdrawnBy) || has(self.withdrawnBy) && self.withdrawnBy == oldSelf.withdrawnBy",message="withdrawnBy is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.withdrawn) || !oldSelf.withdrawn || has(self.withdrawn) && self.withdrawn",message="a request that was withdrawn stays so: ask again"
type QuotaRequestSpec struct {
	// consumerRef is the consumer of the wanted quota.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// requests are the wanted amounts, 1 to 20.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Requests []RequestedQuota `json:"requests"`

	// reason explains the need to the approvers, in 1 to 1,000 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Reason string `json:"reason"`

	// until is the wanted end of the quota. Absent (the default), it has no end.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// withdrawn, if true, ends the request without a decision. It has no effect on a granted or denied request. Default:
	// false.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`

	// withdrawnBy is the user of the update with withdrawn. Bursar sets it from the authenticated update, and overwrites
	// the value of the client.
	// +optional
	WithdrawnBy *RequestUser `json:"withdrawnBy,omitempty"`

	// requester is the creator of the request. Bursar sets it from the authenticated create, and overwrites the value of
	// the client.
	// +optional
	Requester *RequestUser `json:"requester,omitempty"`
}

// RequestedQuota is a wanted amount of a resource type.
// +kubebuilder:validation:XValidation:rule="has(self.limit) != has(self.increase)",message="give limit, or increase"
// +kubebuilder:validation:XValidation:rule="!has(self.limit) || !has(self.dimensions) || size(self.dimensions) == 0",message="a limit is of the whole resource type: with dimensions give increase"
type RequestedQuota struct {
	// resourceType is the resource type, in 1 to 253 characters: the spec.resourceType of a registration.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`

	// limit is the wanted limit of the consumer, in base units, at least 1. Set either this or increase.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Limit *int64 `json:"limit,omitempty"`

	// increase is the wanted amount on top of the present limit, in base units, at least 1. Set either this or limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Increase *int64 `json:"increase,omitempty"`

	// dimensions restrict the increase to claims with these dimensions: at most 16, with keys of at most 317 characters
	// and values of at most 253. Empty (the default), the increase is for all claims.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317)",message="dimensions must have keys of at most 317 characters"
	Dimensions map[string]string `json:"dimensions,omitempty"`
}

// RequestUser is an authenticated user.
type RequestUser struct {
	// username is the user's name.
	Username string `json:"username"`

	// uid is the user's UID. It is absent for users without a UID.
	// +optional
	UID string `json:"uid,omitempty"`

	// groups are the user's groups at that time, at most 1,000. Bursar finds out by them whether the user may act for a
	// ServiceAccount that decides later.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=1000
	Groups []string `json:"groups,omitempty"`
}

// QuotaRequestStatus is the state of a request.
type QuotaRequestStatus struct {
	// conditions has the condition Approved. It is Unknown with reason Pending, True with reason Approved or
	// PartiallyApproved, or False with reason Denied, Withdrawn or Expired. After True or False it no longer changes.
	// A pending request also has Reconciling, and a denied or expired one Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// asks has the wanted amounts for people, in display units, in at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Asks string `json:"asks,omitempty"`

	// approvers are groups. Only their members may decide. Absent, all users with the right to create QuotaDecisions may
	// decide.
	// +optional
	// +listType=set
	Approvers []string `json:"approvers,omitempty"`

	// approvalsNeeded is the number of different users needed to approve. It is 0 until Bursar has found the rule.
	// +optional
	ApprovalsNeeded int32 `json:"approvalsNeeded,omitempty"`

	// policyRef names the applicable QuotaRequestPolicy and its rule. It is absent if no policy applies.
	// +optional
	PolicyRef *RequestPolicyRef `json:"policyRef,omitempty"`

	// decisions are the counting decisions, in their order.
	// +optional
	// +listType=atomic
	Decisions []RequestDecision `json:"decisions,omitempty"`

	// approved is the approved quota. Bursar sets it before it creates the grant. Later only grantWaits changes.
	// +optional
	Approved *ApprovedQuota `json:"approved,omitempty"`

	// expiresAt is the time at which the request expires without a decision. It is absent if the request waits forever.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// notified is the reason of the condition Approved in the last notification.
	// +optional
	Notified string `json:"notified,omitempty"`

	// observedGeneration is the metadata.generation behind the conditions.
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

	// decidedBy is the deciding user. It is absent if Bursar decided by a policy or by a cap of a registration.
	// +optional
	DecidedBy *RequestUser `json:"decidedBy,omitempty"`

	// policyRef names the deciding policy. It is absent if a user or a cap of a registration decided.
	// +optional
	PolicyRef *RequestPolicyRef `json:"policyRef,omitempty"`

	// decidedAt is the time of the decision.
	DecidedAt metav1.Time `json:"decidedAt"`

	// reason is the explanation of the user or the policy.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ApprovedQuota is the quota granted on a request.
type ApprovedQuota struct {
	// increases are the amounts on top of the limits at the time of the approval, without amounts already in these limits.
	// +optional
	// +listType=atomic
	Increases []ApprovedIncrease `json:"increases,omitempty"`

	// until is the end of the quota. Absent, it has no end.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// partial is true if the quota is less than the wanted quota, or for a shorter time.
	// +optional
	Partial bool `json:"partial,omitempty"`

	// grantWaits is true while the grant does not count: a cap of a registration has no room for it, or Bursar cannot
	// create it.
	// +optional
	GrantWaits bool `json:"grantWaits,omitempty"`

	// grant is the name of the ResourceGrant, in the namespace of the request. It is empty without an increase to grant.
	// +optional
	Grant string `json:"grant,omitempty"`
}

// ApprovedIncrease is a granted amount.
type ApprovedIncrease struct {
	// resourceType is the resource type of the requested amount.
	ResourceType string `json:"resourceType"`

	// dimensions are the dimensions of the requested amount.
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
