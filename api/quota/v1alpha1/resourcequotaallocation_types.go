package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceQuotaAllocation caps the sum of the ResourceQuotas of several namespaces, its member namespaces. Users with
// the right to write the ResourceQuotas of member namespaces distribute the cap among them.
//
// A member namespace takes, of each resource, the largest amount in one of its ResourceQuotas, so none of them has to
// name everything. Bursar admits the create or the raise of a ResourceQuota only if every allocation of its namespace
// has room for the increase. It always admits a change without an increase, even beyond the cap. A ResourceQuota
// without a resource takes none of it. A ResourceQuota with a capped resource must keep it, unless spec.mayLeave is
// true or the user has the right to update the allocation.
//
// Bursar neither counts nor restricts the ResourceQuotas in kube-system, kube-public, kube-node-lease and its own
// namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourcequotaallocations,scope=Cluster,shortName=rqalloc,categories=bursar
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Exceeded",type=string,JSONPath=`.status.conditions[?(@.type=="Exceeded")].status`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Scopes",type=string,JSONPath=`.spec.allocation['scopes','scopeSelector']`
type ResourceQuotaAllocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the cap, and the selector of its member namespaces.
	Spec ResourceQuotaAllocationSpec `json:"spec"`

	// status has the allocated amounts. Bursar admits ResourceQuotas by these amounts, and by the changes admitted
	// since.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ResourceQuotaAllocationStatus `json:"status,omitzero"`
}

// ResourceQuotaAllocationSpec is the cap, and the selector of its member namespaces.
type ResourceQuotaAllocationSpec struct {
	// selector selects the member namespaces by their labels. An empty selector selects all namespaces except those of the
	// system.
	Selector metav1.LabelSelector `json:"selector"`

	// allocation is the cap: allocation.hard has, for each resource, the highest sum for all member namespaces together;
	// other resources have no cap. With scopes or a scopeSelector, the cap counts and limits only ResourceQuotas with the
	// same ones; without them, only ResourceQuotas without either.
	Allocation corev1.ResourceQuotaSpec `json:"allocation"`

	// mayLeave, if true, permits the removal of a capped resource from a ResourceQuota of a member namespace, and the
	// deletion of the ResourceQuota, to every user with the right to write it. The namespace may be unlimited afterwards.
	// Default: false: this takes the right to update this allocation.
	// +optional
	MayLeave bool `json:"mayLeave,omitempty"`

	// default is the ResourceQuota for member namespaces without a limit for a capped resource. Bursar creates it if the
	// cap has room for it. It belongs to the namespace from then on. Absent (the default), Bursar creates none, and
	// status.unlimitedNamespaces lists namespaces without a limit.
	// +optional
	Default *DefaultResourceQuota `json:"default,omitempty"`
}

// DefaultResourceQuota is a ResourceQuota for namespaces without one. Its scopes are those of the allocation.
type DefaultResourceQuota struct {
	// name is the name of the ResourceQuota. Default: default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// hard has the amount of each resource. The allocation must cap each of them. The ResourceQuota omits resources with a
	// limit in the namespace.
	Hard corev1.ResourceList `json:"hard"`
}

// DefaultResourceQuotaName is the name of a default ResourceQuota, unless the allocation sets another.
const DefaultResourceQuotaName = "default"

// ResourceQuotaAllocationStatus has the allocated amounts of a cap.
type ResourceQuotaAllocationStatus struct {
	// allocated is the cap (hard), and the allocated amounts (used): the sum over all member namespaces, including
	// admitted changes not seen yet. During many changes Bursar writes it once in a second, or in a few. used exceeds hard
	// if the cap shrank, or a namespace became a member, after the allocation.
	// +optional
	Allocated corev1.ResourceQuotaStatus `json:"allocated,omitzero"`

	// usedByProject has the amounts of each member namespace by its ResourceQuotas, ordered by name: a list of namespace
	// and used, a resource list. Namespaces without an amount are absent. Because Bursar writes it often, the API server
	// validates no schema in it.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	UsedByProject []NamespacedResourceList `json:"usedByProject,omitempty"`

	// unlimitedNamespaces are member namespaces without a limit for a capped resource, ordered by name: the first 50.
	// The condition Limited has their number.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	UnlimitedNamespaces []UnlimitedNamespace `json:"unlimitedNamespaces,omitempty"`

	// observed is the state of the cluster behind usedByProject.
	// +optional
	Observed ObservedResourceQuotas `json:"observed,omitzero"`

	// observedGeneration is the metadata.generation behind usedByProject.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// summary is used of hard for the first capped resources, for people, such as "count/secrets 60/100, pods 3/10", in
	// at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Summary string `json:"summary,omitempty"`

	// conditions are Ready, Exceeded and Limited. Ready is True with reason Enforced while Bursar keeps ResourceQuotas
	// within the cap, and False with reason WebhooksPending or ValidationFailed. Exceeded is True with reason CapExceeded
	// while the allocated amount exceeds the cap, and False with reason WithinCap. Limited is True with reason AllLimited
	// while every member namespace has a limit for each capped resource, and False with reason NamespacesUnlimited. While
	// Ready is False, it also has Reconciling or, if the spec is invalid, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UnlimitedNamespace is a namespace without a limit for some capped resources.
type UnlimitedNamespace struct {
	// namespace is the name of the namespace.
	Namespace string `json:"namespace"`

	// resources are the capped resources without a limit in the namespace, in order.
	// +listType=atomic
	Resources []corev1.ResourceName `json:"resources"`
}

// NamespacedResourceList has the amounts of one namespace.
type NamespacedResourceList struct {
	// namespace is the name of the namespace.
	Namespace string `json:"namespace"`

	// used has the namespace's amount of each resource.
	Used corev1.ResourceList `json:"used"`
}

// ObservedResourceQuotas is a state of the cluster, by resource versions: those of a list, of a bookmark, or of the
// last changed object. Versions of one kind are comparable with each other.
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
	// ConditionExceeded indicates whether the allocated amount of a ResourceQuotaAllocation exceeds its cap.
	ConditionExceeded = "Exceeded"
	// ConditionLimited indicates whether every member namespace has a limit for each capped resource.
	ConditionLimited = "Limited"
)

// Reasons of the conditions of a ResourceQuotaAllocation.
const (
	// ReasonEnforced goes with Ready=True: Bursar keeps ResourceQuotas within the cap. The API server may still carry out
	// earlier requests within its request timeout, a minute.
	ReasonEnforced = "Enforced"
	// ReasonWebhooksPending goes with Ready=False: the API server does not call Bursar for all ResourceQuotas yet.
	ReasonWebhooksPending = "WebhooksPending"
	// ReasonCapExceeded goes with Exceeded=True: the allocated amount exceeds the cap.
	ReasonCapExceeded = "CapExceeded"
	// ReasonWithinCap goes with Exceeded=False: the allocated amount is within the cap.
	ReasonWithinCap = "WithinCap"
	// ReasonAllLimited goes with Limited=True: every member namespace has a limit for each capped resource.
	ReasonAllLimited = "AllLimited"
	// ReasonNamespacesUnlimited goes with Limited=False: some member namespaces have no limit.
	ReasonNamespacesUnlimited = "NamespacesUnlimited"
)

// Types of the causes of a denied change of a ResourceQuota. They are stable.
const (
	// CauseAllocationExceeded: a ResourceQuotaAllocation has too little room for a resource. The field of the cause is
	// the resource's, such as spec.hard[count/secrets]. Status 403.
	CauseAllocationExceeded metav1.CauseType = "ResourceQuotaAllocationExceeded"

	// CauseAllocationLeft: a capped resource would have no limit after the change. The field of the cause is the
	// resource's, such as spec.hard[count/secrets]. Status 403.
	CauseAllocationLeft metav1.CauseType = "ResourceQuotaAllocationLeft"
)

// ResourceQuotaAllocationList is a list of allocations.
//
// +kubebuilder:object:root=true
type ResourceQuotaAllocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceQuotaAllocation `json:"items"`
}
