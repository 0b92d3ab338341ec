package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceQuotaAllocation caps what the ResourceQuotas of several namespaces may give together. Whoever
// may write the ResourceQuotas of such namespaces, which are called projects here, spreads the cap among
// them as they like.
//
// Of each resource a project takes the largest amount that one of its ResourceQuotas gives, so that none
// of them has to name everything. A ResourceQuota is created, or raised, only if every allocation that
// selects its namespace has room for what the project takes more by that. Whatever raises nothing is
// allowed, however much is taken already. A ResourceQuota that leaves a resource out takes none of it; one
// that names a capped resource has to keep naming it, unless spec.mayLeave is true or the user who changes it
// may update the allocation.
//
// The ResourceQuotas in kube-system, kube-public, kube-node-lease and Bursar's own namespace are not
// counted and not kept from anything.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourcequotaallocations,scope=Cluster,shortName=rqalloc,categories=bursar
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Exceeded",type=string,JSONPath=`.status.conditions[?(@.type=="Exceeded")].status`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceQuotaAllocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is capped, and in which namespaces.
	Spec ResourceQuotaAllocationSpec `json:"spec"`

	// status is how much is given out. ResourceQuotas are admitted by it, and by what was admitted since.
	// +optional
	Status ResourceQuotaAllocationStatus `json:"status,omitzero"`
}

// ResourceQuotaAllocationSpec says what is capped, and in which namespaces.
type ResourceQuotaAllocationSpec struct {
	// selector selects the namespaces by their labels. An empty one selects all but the system's.
	Selector metav1.LabelSelector `json:"selector"`

	// allocation is the cap: allocation.hard holds, for each resource, the most that all selected
	// namespaces may have together; a resource that it does not name is not capped. With scopes or a
	// scopeSelector only those ResourceQuotas count, and are kept within the cap, that have the same;
	// without, those that have none.
	Allocation corev1.ResourceQuotaSpec `json:"allocation"`

	// mayLeave, if true, lets everybody who may write a ResourceQuota of a selected namespace take a capped
	// resource out of it, or delete it, after which the namespace may be unlimited. Default: false: only users who
	// may update this allocation can do that.
	// +optional
	MayLeave bool `json:"mayLeave,omitempty"`

	// default is the ResourceQuota that a selected namespace gets where none limits a capped resource. It is made
	// if the cap has room for it, and belongs to the namespace from then on. Default: none is made, and
	// status.unlimitedNamespaces lists namespaces without a limit.
	// +optional
	Default *DefaultResourceQuota `json:"default,omitempty"`
}

// DefaultResourceQuota is a ResourceQuota for namespaces that have none. Its scopes are those of the allocation.
type DefaultResourceQuota struct {
	// name is the name of the ResourceQuota. Default: default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// hard is how much it gives of each resource. The allocation has to cap each of them. Resources that the namespace
	// has a limit for already are left out.
	Hard corev1.ResourceList `json:"hard"`
}

// DefaultResourceQuotaName is the name of a default ResourceQuota, unless the allocation sets another.
const DefaultResourceQuotaName = "default"

// ResourceQuotaAllocationStatus is how much of a cap is given out.
type ResourceQuotaAllocationStatus struct {
	// allocated is the cap (hard), and how much of it is given out (used): the sum over all projects,
	// changes that are admitted and not seen yet included. Where much changes it is written once in a second, or a few.
	// used exceeds hard where the cap was cut, or a namespace came to be selected, after so much had been given out.
	// +optional
	Allocated corev1.ResourceQuotaStatus `json:"allocated,omitzero"`

	// usedByProject is how much of it each selected namespace takes by the ResourceQuotas that it has,
	// ordered by name: a list of namespace and used, which is a resource list. Namespaces that take nothing are
	// left out. Since it is written often, the API server checks no schema in it.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	UsedByProject []NamespacedResourceList `json:"usedByProject,omitempty"`

	// unlimitedNamespaces are selected namespaces in which no ResourceQuota limits a capped resource, ordered by name:
	// the first 50. The condition Limited has their number.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	UnlimitedNamespaces []UnlimitedNamespace `json:"unlimitedNamespaces,omitempty"`

	// observed is what usedByProject was taken from.
	// +optional
	Observed ObservedResourceQuotas `json:"observed,omitzero"`

	// observedGeneration is the metadata.generation that usedByProject is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// summary is used of hard for the first resources that are capped, for people to read, such as
	// "count/secrets 60/100, pods 3/10", in at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Summary string `json:"summary,omitempty"`

	// conditions are Ready, which says whether ResourceQuotas are kept within the cap, Exceeded, which
	// says whether more is given out than the cap, and Limited, which says whether every selected namespace has a
	// limit for each capped resource.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UnlimitedNamespace is a namespace that the cap does not reach in full.
type UnlimitedNamespace struct {
	// namespace is the name of the namespace.
	Namespace string `json:"namespace"`

	// resources are the capped ones that no ResourceQuota of the namespace limits, in order.
	// +listType=atomic
	Resources []corev1.ResourceName `json:"resources"`
}

// NamespacedResourceList is what one namespace takes.
type NamespacedResourceList struct {
	// namespace is the name of the namespace.
	Namespace string `json:"namespace"`

	// used is how much the namespace takes of each resource.
	Used corev1.ResourceList `json:"used"`
}

// ObservedResourceQuotas is a state of the cluster, by the resource versions of what was listed and
// watched: that of a list, of a bookmark, or of the last object that changed. Versions of one kind can be
// compared with each other.
type ObservedResourceQuotas struct {
	// resourceQuotas is the version of the ResourceQuotas.
	// +optional
	ResourceQuotas string `json:"resourceQuotas,omitempty"`

	// namespaces is the version of the namespaces.
	// +optional
	Namespaces string `json:"namespaces,omitempty"`
}

// Conditions of a ResourceQuotaAllocation besides Ready.
const (
	// ConditionExceeded says whether more of a ResourceQuotaAllocation is given out than its cap.
	ConditionExceeded = "Exceeded"
	// ConditionLimited says whether every selected namespace has a limit for each capped resource.
	ConditionLimited = "Limited"
)

// Reasons of the conditions of a ResourceQuotaAllocation.
const (
	// ReasonEnforced: ResourceQuotas are kept within the cap. Requests that the API server admitted before that
	// may still be carried out for as long as it gives a request, a minute.
	ReasonEnforced = "Enforced"
	// ReasonWebhooksPending: the API server does not ask Bursar about all ResourceQuotas yet.
	ReasonWebhooksPending = "WebhooksPending"
	// ReasonCapExceeded: more is given out than the cap.
	ReasonCapExceeded = "CapExceeded"
	// ReasonWithinCap: no more is given out than the cap.
	ReasonWithinCap = "WithinCap"
	// ReasonAllLimited: every selected namespace has a limit for each capped resource.
	ReasonAllLimited = "AllLimited"
	// ReasonNamespacesUnlimited: some do not, and may use as much as they like.
	ReasonNamespacesUnlimited = "NamespacesUnlimited"
)

// CauseAllocationExceeded is the type of those causes in the status of a refused ResourceQuota that say
// which resource of which ResourceQuotaAllocation has not enough room. Their field is the resource's, such as
// spec.hard[count/secrets].
const CauseAllocationExceeded metav1.CauseType = "ResourceQuotaAllocationExceeded"

// CauseAllocationLeft is the type of those causes in the status of a refused request that say which capped resource
// a ResourceQuota would no longer limit. Their field is the resource's, such as spec.hard[count/secrets].
const CauseAllocationLeft metav1.CauseType = "ResourceQuotaAllocationLeft"

// ResourceQuotaAllocationList is a list of allocations.
//
// +kubebuilder:object:root=true
type ResourceQuotaAllocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceQuotaAllocation `json:"items"`
}
