package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EffectiveResourceGrant is a consumer's view of its quota of one resource type: what all active
// grants give together, what is taken, and what is left, in base units and in the units that
// people read. Bursar keeps one in the consumer's namespace as soon as there is an active grant or
// a claim waits, and keeps it when the last of them is gone, for as long as the consumer exists. It owns the
// AllowanceBuckets that it sums up. Deleted by hand it comes back, and so do they, unless there is nothing to show. It is for
// reading: decisions are made on the ledger, which it follows within about a second.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=effectiveresourcegrants,scope=Namespaced,shortName=ergrant,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.resourceType`
// +kubebuilder:printcolumn:name="Resource Type",type=string,JSONPath=`.spec.resourceType`
// +kubebuilder:printcolumn:name="Limit",type=string,JSONPath=`.status.display.totalLimit`
// +kubebuilder:printcolumn:name="Allocated",type=string,JSONPath=`.status.display.totalAllocated`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.display.available`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Percent",type=string,JSONPath=`.status.display.percent`
// +kubebuilder:printcolumn:name="Consumer Type",type=string,JSONPath=`.spec.consumerRef.kind`,priority=1
type EffectiveResourceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says whose quota of what is shown. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: an effective grant is of one consumer and one resource type for good"
	Spec EffectiveResourceGrantSpec `json:"spec"`

	// status is the quota and its use.
	// +optional
	Status EffectiveResourceGrantStatus `json:"status,omitzero"`
}

// EffectiveResourceGrantSpec says whose quota of what is shown. It cannot be changed.
type EffectiveResourceGrantSpec struct {
	// consumerRef is the consumer whose quota is shown.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// resourceType is the resource type shown, in 1 to 253 characters: the spec.resourceType of a
	// registration.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}

// EffectiveResourceGrantStatus is the quota and its use. Amounts are in base units unless they
// are under display.
type EffectiveResourceGrantStatus struct {
	// allowanceBucketRefs are the buckets that show the quota, the one of the whole first and then
	// those by dimensions. Those that would not fit are left out, if the dimensions are very long;
	// all of them have this object as owner.
	// +optional
	AllowanceBucketRefs []AllowanceBucketRef `json:"allowanceBucketRefs,omitempty"`

	// available is what is left of the limit, and 0 where more is allocated than the limit. Where
	// allowances carry dimension selectors, a request may find less than this.
	// +kubebuilder:validation:Minimum=0
	Available int64 `json:"available"`

	// display is the same for people to read, in the display unit of the registration. It is absent
	// while the resource type has no active registration.
	// +optional
	Display *DisplayedQuota `json:"display,omitempty"`

	// grantRefs are the active grants that the limit is made of.
	// +optional
	GrantRefs []EffectiveGrantRef `json:"grantRefs,omitempty"`

	// observedGeneration is the metadata.generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// totalAllocated is the sum of what granted claims hold. It exceeds the limit where grants have
	// shrunk below what was in use, or where objects were there before the quota.
	// +kubebuilder:validation:Minimum=0
	TotalAllocated int64 `json:"totalAllocated"`

	// totalLimit is the sum of what active grants give.
	// +kubebuilder:validation:Minimum=0
	TotalLimit int64 `json:"totalLimit"`
}

// DisplayedQuota is a quota in display units, as text with the unit, such as "1.5 GiB".
type DisplayedQuota struct {
	// available is what is left of the limit.
	Available string `json:"available"`

	// percent is the allocated part of the limit, such as 80%, or "over" if something is allocated without
	// a limit.
	// +optional
	Percent string `json:"percent,omitempty"`

	// totalAllocated is what granted claims hold.
	TotalAllocated string `json:"totalAllocated"`

	// totalLimit is what active grants give.
	TotalLimit string `json:"totalLimit"`
}

// EffectiveGrantRef is a grant's part in a limit.
type EffectiveGrantRef struct {
	// amount is what the grant gives of the resource type, in base units, at least 0.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`

	// name is the grant's name.
	Name string `json:"name"`

	// namespace is the grant's namespace.
	Namespace string `json:"namespace"`

	// observedGeneration is the metadata.generation of the grant that amount was taken from.
	ObservedGeneration int64 `json:"observedGeneration"`
}

// AllowanceBucketRef names a bucket in the same namespace.
type AllowanceBucketRef struct {
	// allocated is what granted claims hold of what the bucket shows, in base units, so that all references
	// add up to totalAllocated: for the bucket of the whole, what requests without dimensions hold.
	// +kubebuilder:validation:Minimum=0
	Allocated int64 `json:"allocated"`

	// dimensions are those that the bucket shows, and absent for the one of the whole.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// name is the bucket's name.
	Name string `json:"name"`

	// observedGeneration is the metadata.generation of the bucket.
	ObservedGeneration int64 `json:"observedGeneration"`
}

// EffectiveResourceGrantList is a list of effective grants.
//
// +kubebuilder:object:root=true
type EffectiveResourceGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EffectiveResourceGrant `json:"items"`
}
