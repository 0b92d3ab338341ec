package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AllocationLedger records the changes of ResourceQuotas admitted under a ResourceQuotaAllocation since the last write
// of its status. Decisions use both. The allocation owns the ledger. The name of the ledger is the metadata.uid of the
// allocation. Only Bursar writes it. Deleting it makes decisions wrong until the API server has carried out the
// recorded changes.
//
// Bursar rewrites the object for every batch of decisions, so the API server validates no schema in it.
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

// AllocationLedgerSpec has the changes admitted since the last write of an allocation's status.
type AllocationLedgerSpec struct {
	// allocationName is the name of the ResourceQuotaAllocation.
	AllocationName string `json:"allocationName"`

	// allocationVersion is a metadata.resourceVersion of the ResourceQuotaAllocation. pending is complete only together
	// with the status at that version or later.
	AllocationVersion string `json:"allocationVersion"`

	// pending are admitted changes of ResourceQuotas, in the order of their admission. The status may lack them. Their
	// raised amounts count as allocated. A change expires 90 seconds after its admission at the latest, if the API server
	// does not carry it out. A finished change stays until the next write for another reason, or for a minute.
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

	// resourceVersion is the metadata.resourceVersion of the ResourceQuota before the change. It is empty for a create.
	// Once the ResourceQuota has another version, the change has happened or is no longer possible.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// namespaceVersion is the metadata.resourceVersion of the namespace with the labels used for the admission.
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
