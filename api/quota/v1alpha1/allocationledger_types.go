package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AllocationLedger records the changes of ResourceQuotas that were admitted under a ResourceQuotaAllocation since its
// status was written. Decisions use both. Its name is the metadata.uid of the allocation, which owns it. Only Bursar
// writes it; deleting it makes decisions wrong until the recorded changes have been carried out.
//
// The object is rewritten for every batch of decisions, so the API server validates no schema in it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=allocationledgers,scope=Cluster,shortName=aledger
// +kubebuilder:printcolumn:name="Allocation",type=string,JSONPath=`.spec.allocationName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AllocationLedger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the ledger beside the status of the allocation. It is internal to Bursar, and its form may change with
	// any release.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec AllocationLedgerSpec `json:"spec"`
}

// AllocationLedgerSpec has the changes that were admitted since the status of an allocation was written.
type AllocationLedgerSpec struct {
	// allocationName is the name of the ResourceQuotaAllocation.
	AllocationName string `json:"allocationName"`

	// allocationVersion is a metadata.resourceVersion of the ResourceQuotaAllocation. pending is complete only together
	// with the status at that version or later.
	AllocationVersion string `json:"allocationVersion"`

	// pending are admitted changes of ResourceQuotas that may not be in the status yet, in the order of their
	// admission. Their raised amounts count as allocated. A change that is not carried out expires after 90 seconds at
	// the latest; a change that is carried out stays until the next write for another reason, or a minute.
	// +optional
	Pending []PendingResourceQuota `json:"pending,omitempty"`
}

// PendingResourceQuota is an admitted change of a ResourceQuota.
type PendingResourceQuota struct {
	// id is the unique ID of this admission.
	ID string `json:"id"`

	// namespace is the namespace of the ResourceQuota.
	Namespace string `json:"namespace"`

	// name is the name of the ResourceQuota.
	Name string `json:"name"`

	// uid is the metadata.uid of the ResourceQuota.
	UID types.UID `json:"uid"`

	// resourceVersion is the metadata.resourceVersion of the ResourceQuota to be changed; empty for a create. Once the
	// ResourceQuota has another version, the change has either been made or can no longer be made.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// namespaceVersion is the metadata.resourceVersion of the namespace whose labels the admission used.
	NamespaceVersion string `json:"namespaceVersion"`

	// hard are the raised amounts of the ResourceQuota.
	Hard corev1.ResourceList `json:"hard"`

	// admittedAt is the time of the admission.
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
