package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QuotaDecision decides on a QuotaRequest in its namespace. Users with the right to create QuotaDecisions may decide,
// except on their own requests. If the policy of the request names groups of approvers, only their members may decide.
// A decision is immutable. The first approval of each user and every denial count, as long as the request is pending.
// The request owns its decisions: Kubernetes deletes them with it.
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

	// amounts approve less: for each requested amount, in the same order, the approved limit or increase. It is at most
	// the requested amount; 0 approves nothing of it. Absent (the default), the decision approves everything.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Amounts []DecidedQuota `json:"amounts,omitempty"`

	// until approves for a shorter time: the end of the quota, at the latest the end in the request. Absent (the default),
	// the end in the request applies.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// reason is a text for the requester, in at most 1,000 characters. A denial requires it.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	Reason string `json:"reason,omitempty"`

	// decidedBy is the creator of the decision. Bursar sets it from the authenticated create, and overwrites the value of
	// the client.
	// +optional
	DecidedBy *RequestUser `json:"decidedBy,omitempty"`
}

// DecidedRequestRef names the request of a decision.
type DecidedRequestRef struct {
	// name is the name of the request.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// uid is the metadata.uid of the request. It keeps the decision from applying to a later request of the same name.
	// +kubebuilder:validation:MinLength=1
	UID string `json:"uid"`
}

// Decision is Approve or Deny.
// +kubebuilder:validation:Enum=Approve;Deny
type Decision string

const (
	// DecisionApprove approves a request.
	DecisionApprove Decision = "Approve"

	// DecisionDeny denies a request.
	DecisionDeny Decision = "Deny"
)

// DecidedQuota is the approved part of a requested amount.
type DecidedQuota struct {
	// resourceType is the resource type of the requested amount.
	ResourceType string `json:"resourceType"`

	// amount is the approved limit if the request has a limit, and otherwise the approved increase, in base units, at
	// least 0.
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
