package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons for the Active condition of grants, besides [ReasonValidationFailed].
const (
	// ReasonGrantActive goes with Active=True: the grant's allowances count.
	ReasonGrantActive = "GrantActive"

	// ReasonGrantPending goes with Active=Unknown: Bursar has not processed the grant yet.
	ReasonGrantPending = "GrantPending"

	// ReasonNotYetValid goes with Active=False: the period of the grant, or those of all its allowances, have not begun.
	ReasonNotYetValid = "NotYetValid"

	// ReasonExpired goes with Active=False on a grant: its period, or those of all its allowances, are over. On a
	// QuotaRequest it goes with Approved=False: nobody decided in time.
	ReasonExpired = "Expired"

	// ReasonCapReached goes with Active=False: the amounts would exceed maxPerConsumer or maxTotal of a registration. The
	// earlier amounts of a changed grant continue to count.
	ReasonCapReached = "CapReached"
)

const (
	// ConditionExpiring is True while the end of an active grant, or of one of its allowances, is near.
	ConditionExpiring = "Expiring"

	// ReasonGrantExpiring goes with Expiring=True: the end is near.
	ReasonGrantExpiring = "GrantExpiring"
)

// ResourceGrant grants a consumer capacity of one or more resource types. The limit of a consumer is the sum of its
// active grants. A grant is active only if all its resource types are registered for the kind of the consumer. Deleting
// a grant lowers the limit, and takes nothing back from earlier claims.
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
// +kubebuilder:printcolumn:name="Ends",type=string,JSONPath=`.spec.notAfter`,priority=1
// +kubebuilder:printcolumn:name="Consumer Namespace",type=string,JSONPath=`.spec.consumerRef.namespace`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].reason`,priority=1
type ResourceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the consumer and the granted capacity.
	Spec ResourceGrantSpec `json:"spec"`

	// status indicates whether the capacity counts.
	// +optional
	// +kubebuilder:default={conditions:{{type:"Active",status:"Unknown",reason:"GrantPending",message:"Not reconciled yet",lastTransitionTime:"1970-01-01T00:00:00Z"}},observedGeneration:-1}
	Status ResourceGrantStatus `json:"status,omitzero"`
}

// ResourceGrantSpec is the consumer and the granted capacity.
// +kubebuilder:validation:XValidation:rule="!has(self.notBefore) || !has(self.notAfter) || self.notBefore < self.notAfter",message="notBefore must be earlier than notAfter"
type ResourceGrantSpec struct {
	// notBefore and notAfter bound the whole grant.
	Period `json:",inline"`

	// allowances are the granted capacity, 1 to 20 entries. Either all of them count or none does.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Allowances []Allowance `json:"allowances"`

	// consumerRef is the consumer of the capacity. Its kind must be the one in the spec.consumerType of every granted
	// resource type.
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

// PeriodOf returns the period of an allowance of the grant: the common part of its own period and the grant's.
func (s *ResourceGrantSpec) PeriodOf(a *Allowance) Period {
	common := a.Period
	if begin := s.NotBefore; begin != nil && (common.NotBefore == nil || common.NotBefore.Before(begin)) {
		common.NotBefore = begin
	}
	if end := s.NotAfter; end != nil && (common.NotAfter == nil || end.Before(common.NotAfter)) {
		common.NotAfter = end
	}
	return common
}

// Counts reports whether an allowance of the grant counts at a time.
func (s *ResourceGrantSpec) Counts(a *Allowance, now time.Time) bool {
	p := s.PeriodOf(a)
	return p.HasBegun(now) && !p.HasEnded(now)
}

// NextBegin returns the first time after now at which an allowance begins to count. It is zero if none does.
func (s *ResourceGrantSpec) NextBegin(now time.Time) time.Time {
	return s.earliest(func(p Period) *metav1.Time {
		if p.HasBegun(now) || p.HasEnded(p.NotBefore.Time) {
			return nil
		}
		return p.NotBefore
	})
}

// NextEnd returns the first end of the now counting allowances. It is zero if none of them ends.
func (s *ResourceGrantSpec) NextEnd(now time.Time) time.Time {
	return s.earliest(func(p Period) *metav1.Time {
		if !p.HasBegun(now) || p.HasEnded(now) {
			return nil
		}
		return p.NotAfter
	})
}

// earliest returns the earliest time of the periods of all allowances, or zero if there is none.
func (s *ResourceGrantSpec) earliest(of func(Period) *metav1.Time) time.Time {
	var first time.Time
	for i := range s.Allowances {
		if at := of(s.PeriodOf(&s.Allowances[i])); at != nil && (first.IsZero() || at.Time.Before(first)) {
			first = at.Time
		}
	}
	return first
}

// ResourceGrantStatus is the state of a grant.
type ResourceGrantStatus struct {
	// conditions has the condition Active. It is True with reason GrantActive while allowances count. It is False with
	// reason ValidationFailed (the message has the errors) for an invalid grant, NotYetValid before the period of the
	// allowances, Expired after it, and CapReached without room under a cap of a registration. It is Unknown with reason
	// GrantPending until Bursar has processed the grant. Condition Expiring is True with reason GrantExpiring while the
	// end is near. Without Active=True it also has Reconciling or, if the grant is invalid or over, Stalled.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.type == 'Active' ? c.reason in ['GrantActive', 'ValidationFailed', 'GrantPending', 'NotYetValid', 'Expired', 'CapReached'] : true)",message="Active condition reason must be valid"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// gives has the amounts of the grant, for people, in display units and in at most 200 characters. It has the first
	// allowances, such as "cpu=540 cores (location=DLS), projects=10 projects".
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Gives string `json:"gives,omitempty"`

	// observedGeneration is the metadata.generation behind the conditions. If it is lower than the current one, they are
	// out of date.
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
