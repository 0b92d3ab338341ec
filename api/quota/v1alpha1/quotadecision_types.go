package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QuotaDecision decides on a QuotaRequest in its namespace. Whoever may create QuotaDecisions may decide, unless the policy
// of the request names groups of approvers, or the request is their own. A decision is never changed. It counts if the
// request is still pending: the first approval of each user, and a denial at any time. Decisions go with their request.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=quotadecisions,scope=Namespaced,shortName=qdec,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.requestRef.name`
// +kubebuilder:printcolumn:name="Request",type=string,JSONPath=`.spec.requestRef.name`
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.decision`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.decidedBy.username`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
type QuotaDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the decision.
	Spec QuotaDecisionSpec `json:"spec"`
}

// QuotaDecisionSpec is a decision on a request.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a decision is immutable"
// +kubebuilder:validation:XValidation:rule="self.decision != 'Deny' || has(self.reason) && size(self.reason) > 0",message="give a reason for the denial"
// +kubebuilder:validation:XValidation:rule="self.decision != 'Deny' || !has(self.amounts) && !has(self.until)",message="a denial has no amounts and no end"
type QuotaDecisionSpec struct {
	// requestRef is the request.
	RequestRef DecidedRequestRef `json:"requestRef"`

	// decision is Approve or Deny.
	Decision Decision `json:"decision"`

	// amounts approve less: for each requested amount, in the same order, the approved limit or increase, at most what was
	// asked for. 0 approves nothing of it. Absent (the default), everything is approved.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Amounts []DecidedQuota `json:"amounts,omitempty"`

	// until approves for a shorter time: the end of the quota, at most that of the request.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// reason is for the requester, in at most 1,000 characters. A denial needs one.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	Reason string `json:"reason,omitempty"`

	// decidedBy is the user who created the decision. Bursar sets it from the authenticated create, whatever the client
	// writes.
	// +optional
	DecidedBy *RequestUser `json:"decidedBy,omitempty"`
}

// DecidedRequestRef names the request of a decision.
type DecidedRequestRef struct {
	// name is the name of the request.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// uid is the UID of the request that was looked at, so that the decision is not about another one of that name.
	// +kubebuilder:validation:MinLength=1
	UID string `json:"uid"`
}

// Decision is Approve or Deny.
// +kubebuilder:validation:Enum=Approve;Deny
type Decision string

const (
	// DecisionApprove approves a request.
	DecisionApprove Decision = "Approve"

	// DecisionDeny denies it.
	DecisionDeny Decision = "Deny"
)

// DecidedQuota is what is approved of a requested amount.
type DecidedQuota struct {
	// resourceType is that of the requested amount.
	ResourceType string `json:"resourceType"`

	// amount is the approved limit if a limit was asked for, and otherwise the approved increase, in base units.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`
}

// QuotaDecisionList is a list of decisions.
//
// +kubebuilder:object:root=true
type QuotaDecisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaDecision `json:"items"`
}
