package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AllocationLedger holds the changes of ResourceQuotas that were admitted under a ResourceQuotaAllocation since its
// status was written. The two are its books. It is named by the metadata.uid of the allocation, which owns it. Bursar
// alone writes it; deleting it makes the books wrong until what was in it has been carried out.
//
// The object is rewritten for every batch of decisions, so the API server checks no schema in it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=allocationledgers,scope=Cluster,shortName=aledger
// +kubebuilder:printcolumn:name="Allocation",type=string,JSONPath=`.spec.allocationName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AllocationLedger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the books beside the status of the allocation. It is Bursar's alone, and its form may change with
	// any release.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec AllocationLedgerSpec `json:"spec"`
}

// AllocationLedgerSpec is what was admitted since the status of an allocation was written.
type AllocationLedgerSpec struct {
	// allocationName is the name of the ResourceQuotaAllocation.
	AllocationName string `json:"allocationName"`

	// allocationVersion is a metadata.resourceVersion of the ResourceQuotaAllocation. What is pending is only
	// complete together with the status that it had at that version or has later.
	AllocationVersion string `json:"allocationVersion"`

	// pending are changes of ResourceQuotas that were admitted and may not be in the status yet, in the order in which
	// they were admitted. What they raise is given out. One that is not carried out is forgotten 90 seconds later
	// at the latest; one that is carried out stays until something is written anyway, or a minute.
	// +optional
	Pending []PendingResourceQuota `json:"pending,omitempty"`
}

// PendingResourceQuota is a change of a ResourceQuota that was admitted.
type PendingResourceQuota struct {
	// id tells this admission from every other.
	ID string `json:"id"`

	// namespace is the namespace of the ResourceQuota.
	Namespace string `json:"namespace"`

	// name is the name of the ResourceQuota.
	Name string `json:"name"`

	// uid is the metadata.uid of the ResourceQuota.
	UID types.UID `json:"uid"`

	// resourceVersion is the metadata.resourceVersion of the ResourceQuota that is to be changed; empty
	// where it is to be created. Once the ResourceQuota has another, the change was made, or never will be.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// namespaceVersion is the metadata.resourceVersion of the namespace by whose labels the change was admitted.
	NamespaceVersion string `json:"namespaceVersion"`

	// hard is what the ResourceQuota is to give of the resources that it is to give more of.
	Hard corev1.ResourceList `json:"hard"`

	// admittedAt is when the change was admitted.
	AdmittedAt metav1.Time `json:"admittedAt"`
}

// AllocationLedgerList is a list of ledgers.
//
// +kubebuilder:object:root=true
type AllocationLedgerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AllocationLedger `json:"items"`
}
