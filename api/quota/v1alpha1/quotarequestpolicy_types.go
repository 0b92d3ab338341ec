package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QuotaRequestPolicy decides QuotaRequests, or says who does. Of its rules, the first whose condition holds applies to a
// request. If several policies apply, one that denies comes first, then all that ask people together: as many approvals as
// the one that asks most, by members of a group that all of them name. A request is approved at once if policies approve it that are
// together about all its resource types. Without a policy, whoever may create QuotaDecisions decides.
//
// The rule is found once, when Bursar first looks at a request: a later change of a rule is for later requests. Ceilings
// and maxDuration are those at the approval.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=quotarequestpolicies,scope=Cluster,shortName=qrp,categories=bursar
// +kubebuilder:printcolumn:name="Requests Expire After",type=string,JSONPath=`.spec.expireAfter`
// +kubebuilder:printcolumn:name="Quota Lasts",type=string,JSONPath=`.spec.maxDuration`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuotaRequestPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the policy.
	Spec QuotaRequestPolicySpec `json:"spec"`
}

// QuotaRequestPolicySpec says what becomes of requests.
type QuotaRequestPolicySpec struct {
	// resourceTypes are the resource types that the policy is about: it applies to requests that ask for one of them. Empty
	// (the default), it applies to all requests.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ResourceTypes []string `json:"resourceTypes,omitempty"`

	// rules are looked at in their order, 0 to 20. If none applies, the policy does not, but for its ceilings.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Rules []QuotaRequestRule `json:"rules,omitempty"`

	// ceilings are the most that requests may raise limits to, whatever resourceTypes has. A request for more is denied.
	// +optional
	// +listType=map
	// +listMapKey=resourceType
	// +kubebuilder:validation:MaxItems=50
	Ceilings []QuotaRequestCeiling `json:"ceilings,omitempty"`

	// expireAfter is how long a request waits for a decision before it expires, at least 1s. Of several policies, the
	// shortest time applies. Absent (the default), it waits for ever.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s')",message="must be 1s or more"
	ExpireAfter *metav1.Duration `json:"expireAfter,omitempty"`

	// maxDuration is the longest time that approved quota lasts, from the approval on, at least 1s. Approved quota without
	// an end, or with a later one, ends then. Of several policies, the shortest time applies. Absent (the default), there
	// is no such end.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s')",message="must be 1s or more"
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
}

// QuotaRequestRule says what becomes of the requests for which its condition holds.
// +kubebuilder:validation:XValidation:rule="self.action == 'Ask' || !has(self.approvers) && !has(self.approvals)",message="only a rule with the action Ask has approvers and approvals"
// +kubebuilder:validation:XValidation:rule="self.action != 'Deny' || has(self.message)",message="say why in message: the requester reads it"
type QuotaRequestRule struct {
	// name is the name of the rule, unique in its policy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// condition is a CEL expression that yields a bool. It sees request (the QuotaRequest), consumer (the consumer's object, or
	// null if there is none), and asks: for each requested amount the resourceType and the dimensions, and of the resource type
	// the increase that the whole request asks for, the present limit, the limit that is wanted, what is used, and total, the
	// sum of the limits of all consumers, all in base units. Empty (the default), the rule applies to every request.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Condition string `json:"condition,omitempty"`

	// action is Approve, Ask or Deny.
	Action QuotaRequestAction `json:"action"`

	// approvers are the groups whose members may decide, 1 to 20. They also need the right to create QuotaDecisions. Absent,
	// everybody with that right may.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Approvers []string `json:"approvers,omitempty"`

	// approvals is how many different users have to approve, 1 to 5. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Approvals int32 `json:"approvals,omitempty"`

	// message is for the requester, in at most 1,000 characters. A rule that denies needs one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Message string `json:"message,omitempty"`
}

// QuotaRequestAction is what a rule does.
// +kubebuilder:validation:Enum=Approve;Ask;Deny
type QuotaRequestAction string

const (
	// ActionApprove approves a request at once.
	ActionApprove QuotaRequestAction = "Approve"

	// ActionAsk leaves it to people.
	ActionAsk QuotaRequestAction = "Ask"

	// ActionDeny denies it.
	ActionDeny QuotaRequestAction = "Deny"
)

// QuotaRequestCeiling is the most that requests may raise a limit to.
type QuotaRequestCeiling struct {
	// resourceType is the resource type.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`

	// limit is the highest limit of one consumer, in base units, at least 1.
	// +kubebuilder:validation:Minimum=1
	Limit int64 `json:"limit"`
}

// QuotaRequestPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type QuotaRequestPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaRequestPolicy `json:"items"`
}
