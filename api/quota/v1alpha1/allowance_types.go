package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Allowance is capacity of one resource type. Several allowances for one type add up, within a grant and between
// grants.
// +kubebuilder:validation:XValidation:rule="!has(self.notBefore) || !has(self.notAfter) || self.notBefore < self.notAfter",message="notBefore must be earlier than notAfter"
type Allowance struct {
	// notBefore and notAfter bound the allowance within the period of its grant.
	Period `json:",inline"`

	// buckets are the parts of the allowance, at least one; their amounts add up. Parts exist only for bookkeeping,
	// such as a base amount and a later increase.
	// +kubebuilder:validation:MinItems=1
	Buckets []Bucket `json:"buckets"`

	// dimensionSelector restricts the allowance to requests with matching dimensions, as a label selector does with
	// labels. Absent (the default) or empty, it matches every request. Narrowing it takes nothing back from earlier
	// claims.
	// +optional
	DimensionSelector *metav1.LabelSelector `json:"dimensionSelector,omitempty"`

	// resourceType is the resource type of the capacity: the spec.resourceType of an active registration.
	ResourceType string `json:"resourceType"`
}

// Bucket is a part of an allowance.
type Bucket struct {
	// amount is the capacity in base units of the resource type, at least 0. A change may lower it below the use: Bursar
	// then takes nothing back, and grants nothing more until the use falls.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`
}

// Period is the time in which capacity counts, by the clock of the API server, in whole seconds.
type Period struct {
	// notBefore is the time at which the capacity begins to count. Absent (the default), it counts from its creation on.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// notAfter is the time at which the capacity stops counting. Absent (the default), it has no end. The leader takes the
	// capacity out of the limit within about a second after this time, and later if it is busy or no replica leads. The
	// end takes nothing back: the consumer may then use more than its limit, and gets nothing more until it uses less.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// HasBegun reports whether the period has begun.
func (p Period) HasBegun(now time.Time) bool {
	return p.NotBefore == nil || !now.Before(p.NotBefore.Time)
}

// HasEnded reports whether the period is over.
func (p Period) HasEnded(now time.Time) bool {
	return p.NotAfter != nil && !now.Before(p.NotAfter.Time)
}

// Truncate drops the fractions of seconds: stored times have none.
func (p *Period) Truncate() {
	for _, at := range []*metav1.Time{p.NotBefore, p.NotAfter} {
		if at != nil {
			at.Time = at.Time.Truncate(time.Second)
		}
	}
}
