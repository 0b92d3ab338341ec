package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LocalResourceQuotaAllocation shows, in a namespace that a ResourceQuotaAllocation selects, how much of
// that is left, so that whoever may change the ResourceQuotas there can tell whether a change will be
// allowed. It has the allocation's name. Bursar keeps it, and follows the allocation within seconds; it is
// for reading.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localresourcequotaallocations,scope=Namespaced,shortName=lrqalloc,categories=bursar
// +kubebuilder:printcolumn:name="Hard",type=string,JSONPath=`.status.allocated.hard`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.allocated.used`
// +kubebuilder:printcolumn:name="Used Here",type=string,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Scopes",type=string,JSONPath=`.spec.allocation.scopes`,priority=1
type LocalResourceQuotaAllocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is that of the ResourceQuotaAllocation of the same name.
	Spec ResourceQuotaAllocationSpec `json:"spec"`

	// status is how much is left, for this namespace.
	// +optional
	Status LocalResourceQuotaAllocationStatus `json:"status,omitzero"`
}

// LocalResourceQuotaAllocationStatus is how much of a cap is left for one namespace.
type LocalResourceQuotaAllocationStatus struct {
	// allocated is the cap (hard), and how much of it all selected namespaces take together (used).
	// +optional
	Allocated corev1.ResourceQuotaStatus `json:"allocated,omitzero"`

	// observedGeneration is the metadata.generation of the ResourceQuotaAllocation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// used is how much this namespace takes: of each resource the largest amount that one of its
	// ResourceQuotas gives.
	// +optional
	Used corev1.ResourceList `json:"used,omitempty"`

	// available is the most that a ResourceQuota of this namespace may give of each resource: used, and what
	// is left of the cap.
	// +optional
	Available corev1.ResourceList `json:"available,omitempty"`
}

// LocalResourceQuotaAllocationList is a list of local allocations.
//
// +kubebuilder:object:root=true
type LocalResourceQuotaAllocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []LocalResourceQuotaAllocation `json:"items"`
}
