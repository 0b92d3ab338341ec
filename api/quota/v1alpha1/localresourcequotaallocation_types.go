package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LocalResourceQuotaAllocation is the view of a ResourceQuotaAllocation in one of its member namespaces. It has the
// available amounts, so that authors of ResourceQuotas there see in advance whether Bursar admits a change. It has the
// allocation's name. Bursar maintains it, and it follows the allocation within seconds. It is only for reading.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localresourcequotaallocations,scope=Namespaced,shortName=lrqalloc,categories=bursar
// +kubebuilder:printcolumn:name="Hard",type=string,JSONPath=`.status.allocated.hard`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.allocated.used`
// +kubebuilder:printcolumn:name="Used Here",type=string,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Scopes",type=string,JSONPath=`.spec.allocation['scopes','scopeSelector']`
type LocalResourceQuotaAllocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of the ResourceQuotaAllocation of the same name.
	Spec ResourceQuotaAllocationSpec `json:"spec"`

	// status has the available amounts for this namespace.
	// +optional
	Status LocalResourceQuotaAllocationStatus `json:"status,omitzero"`
}

// LocalResourceQuotaAllocationStatus has the available amounts of a cap for one namespace.
type LocalResourceQuotaAllocationStatus struct {
	// allocated is the cap (hard), and the allocated amounts of all member namespaces together (used).
	// +optional
	Allocated corev1.ResourceQuotaStatus `json:"allocated,omitzero"`

	// observedGeneration is the metadata.generation of the ResourceQuotaAllocation behind the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// used are the amounts of this namespace: for each resource the largest amount in one of its ResourceQuotas.
	// +optional
	Used corev1.ResourceList `json:"used,omitempty"`

	// available is the highest amount of each resource for a ResourceQuota of this namespace: used, and the rest of the
	// cap.
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
