package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Allowance is capacity of one resource type. Several allowances for one type add up, within a grant and between
// grants.
type Allowance struct {
	// buckets are the parts of the allowance, at least one; their amounts add up. Parts exist only for bookkeeping,
	// such as a base amount and a later increase.
	// +kubebuilder:validation:MinItems=1
	Buckets []Bucket `json:"buckets"`

	// dimensionSelector restricts the allowance to requests with matching dimensions, as a label selector does with
	// labels. Absent (the default) or empty, it matches every request. Narrowing it takes nothing back from claims that
	// were granted before.
	// +optional
	DimensionSelector *metav1.LabelSelector `json:"dimensionSelector,omitempty"`

	// resourceType is the resource type of the capacity: the spec.resourceType of an active registration.
	ResourceType string `json:"resourceType"`
}

// Bucket is a part of an allowance.
type Bucket struct {
	// amount is the capacity in base units of the resource type, at least 0. It may be lowered below the use: nothing
	// is taken back, and nothing more is granted until the use falls.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`
}
