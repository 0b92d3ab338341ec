package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QuotaRequestPolicy decides QuotaRequests, or names the people to decide them. The first of its rules with a true
// condition applies to a request. Several policies may apply to one request. Then a rule with the action Deny comes
// first. Rules with the action Ask come next, together: a request needs as many approvals as the strictest of them
// demands, by members of groups common to all of them. Rules with the action Approve approve a request at once if their
// policies together cover all its resource types. Without an applicable policy, users with the right to create
// QuotaDecisions decide.
//
// Bursar finds the rule once, at its first look at a request. A later change of a rule applies to later requests.
// Ceilings and maxDuration apply as they are at the approval.
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

// QuotaRequestPolicySpec has the rules for requests.
type QuotaRequestPolicySpec struct {
	// resourceTypes are the resource types of the policy, at most 50. The policy applies to requests for one of them.
	// Empty (the default), it applies to all requests.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ResourceTypes []string `json:"resourceTypes,omitempty"`

	// rules are the rules in their order, at most 20. If no condition is true, only the ceilings, expireAfter and
	// maxDuration apply.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Rules []QuotaRequestRule `json:"rules,omitempty"`

	// ceilings are the highest limits for requests, at most 50. They apply regardless of resourceTypes. Bursar denies a
	// request for more. A resource type may have a ceiling as a whole, and ceilings for some dimensions.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Ceilings []QuotaRequestCeiling `json:"ceilings,omitempty"`

	// expireAfter is the time for a decision, at least 1s. The request expires afterwards. The shortest time of several
	// policies applies. Absent (the default), the request waits forever.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s')",message="must be 1s or more"
	ExpireAfter *metav1.Duration `json:"expireAfter,omitempty"`

	// maxDuration is the longest duration of approved quota from the approval on, at least 1s. Approved quota without an
	// end, or with a later end, ends then. The shortest duration of several policies applies. Absent (the default), there
	// is no such end.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s')",message="must be 1s or more"
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`
}

// QuotaRequestRule decides the requests with a true condition.
// +kubebuilder:validation:XValidation:rule="self.action == 'Ask' || !has(self.approvers) && !has(self.approvals)",message="only a rule with the action Ask has approvers and approvals"
// +kubebuilder:validation:XValidation:rule="self.action != 'Deny' || has(self.message)",message="say why in message: the requester reads it"
type QuotaRequestRule struct {
	// name is the name of the rule, unique in its policy.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// condition is a CEL expression of at most 1024 characters. It yields a boolean. It sees request (the QuotaRequest),
	// consumer (the consumer's object, or null without one) and asks, with an element for each requested amount. An
	// element has resourceType and dimensions of the amount. Its other fields are figures of the quota for claims with
	// these dimensions, in base units. limit is what all of them may use now, used what claims of any dimensions take of
	// it, and available the rest. increase is the increase by the whole request, and wanted the largest limit of such a
	// claim afterwards: without dimensions, the limit of the whole resource type. total is the sum of the limits of all
	// consumers. Empty (the default), the rule applies to every request.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Condition string `json:"condition,omitempty"`

	// action is Approve, Ask or Deny.
	Action QuotaRequestAction `json:"action"`

	// approvers are 1 to 20 groups. Only their members may decide. They also need the right to create QuotaDecisions.
	// Absent (the default), all users with that right may decide.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Approvers []string `json:"approvers,omitempty"`

	// approvals is the number of different users needed to approve, 1 to 5. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Approvals int32 `json:"approvals,omitempty"`

	// message is a text for the requester, in 1 to 1,000 characters. A rule with the action Deny requires it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Message string `json:"message,omitempty"`
}

// QuotaRequestAction is the action of a rule.
// +kubebuilder:validation:Enum=Approve;Ask;Deny
type QuotaRequestAction string

const (
	// ActionApprove approves a request at once.
	ActionApprove QuotaRequestAction = "Approve"

	// ActionAsk asks people to decide.
	ActionAsk QuotaRequestAction = "Ask"

	// ActionDeny denies a request at once.
	ActionDeny QuotaRequestAction = "Deny"
)

// QuotaRequestCeiling is the highest limit of a resource type for requests.
type QuotaRequestCeiling struct {
	// resourceType is the resource type.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`

	// dimensions restrict the ceiling to the limit of claims with these dimensions: at most 16. Empty (the default), the
	// ceiling is for the limit of the whole resource type.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// limit is the highest limit of one consumer, in base units, at least 1. A request may not raise the limit above it.
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
