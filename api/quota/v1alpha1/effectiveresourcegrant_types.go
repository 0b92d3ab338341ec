package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EffectiveResourceGrant is a consumer's view of its quota of one resource type: the sum of all active grants, the
// allocated and the available amount, in base units and in display units. Bursar creates it in the consumer's namespace
// for the first active grant or waiting claim. It retains it while the consumer exists, even without grants and claims.
// The view owns the AllowanceBuckets in its sums. After a deletion by hand, Bursar creates it again with its buckets,
// unless it is no longer necessary. It is only for reading: decisions use the ledger. The view shows the first change
// after a quiet time within a second, and further ones every few seconds.
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

	// spec is the consumer and the resource type of the quota. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: an effective grant is of one consumer and one resource type for good"
	Spec EffectiveResourceGrantSpec `json:"spec"`

	// status is the quota and its use.
	// +optional
	Status EffectiveResourceGrantStatus `json:"status,omitzero"`
}

// EffectiveResourceGrantSpec is the consumer and the resource type of the quota. It is immutable.
type EffectiveResourceGrantSpec struct {
	// consumerRef is the consumer with the quota.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// resourceType is the resource type of the quota, in 1 to 253 characters: the spec.resourceType of a registration.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}

// EffectiveResourceGrantStatus is the quota and its use. Amounts are in base units unless they are under display.
type EffectiveResourceGrantStatus struct {
	// allowanceBucketRefs are the buckets of the quota, first the one of the whole and then those by dimensions. With very
	// long dimensions, Bursar omits buckets for lack of space. All buckets have this object as owner.
	// +optional
	AllowanceBucketRefs []AllowanceBucketRef `json:"allowanceBucketRefs,omitempty"`

	// available is the rest of the limit, and 0 if the allocated amount exceeds the limit. If allowances have dimension
	// selectors, less may be available to a request.
	// +kubebuilder:validation:Minimum=0
	Available int64 `json:"available"`

	// display has the same figures for people, in the display unit of the registration. It is absent while the resource
	// type has no active registration.
	// +optional
	Display *DisplayedQuota `json:"display,omitempty"`

	// feature is On or Off for a resource type of type Feature, and absent for every other. It is On while totalLimit is
	// more than 0. Then totalAllocated only counts, and available is the limit.
	// +optional
	Feature FeatureState `json:"feature,omitempty"`

	// grantRefs are the active grants in the limit.
	// +optional
	GrantRefs []EffectiveGrantRef `json:"grantRefs,omitempty"`

	// held is the amount that overdue requests hold: Bursar admitted them some seconds ago, and does not see their effect,
	// because something else rejected them. It is not available, but no object uses it, so totalAllocated does not
	// contain it. It returns by itself. It is absent if it is 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Held int64 `json:"held,omitempty"`

	// observedGeneration is the metadata.generation behind the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// totalAllocated is the sum of the amounts of granted claims. It exceeds the limit if grants have shrunk below the
	// use, or if objects existed before the quota.
	// +kubebuilder:validation:Minimum=0
	TotalAllocated int64 `json:"totalAllocated"`

	// totalLimit is the sum of the amounts in active grants.
	// +kubebuilder:validation:Minimum=0
	TotalLimit int64 `json:"totalLimit"`
}

// FeatureState is whether a consumer has a feature.
// +kubebuilder:validation:Enum=On;Off
type FeatureState string

const (
	// FeatureOn means that active grants give the feature.
	FeatureOn FeatureState = "On"

	// FeatureOff means that no active grant gives the feature.
	FeatureOff FeatureState = "Off"
)

// FeatureStateOf returns the state of a feature with a limit.
func FeatureStateOf(limit int64) FeatureState {
	if limit > 0 {
		return FeatureOn
	}
	return FeatureOff
}

// DisplayedQuota is a quota in display units, as text with the unit, such as "1.5 GiB". For a resource type of type
// Feature, available and totalLimit are On or Off, and there is no percent.
type DisplayedQuota struct {
	// available is the rest of the limit.
	Available string `json:"available"`

	// description describes the resource type in at most 500 characters: the annotation kubernetes.io/description of the
	// registration or, if it has none, its spec.description. It is absent if the registration has neither.
	// +optional
	Description string `json:"description,omitempty"`

	// owner is the service of the resource type: the label services.miloapis.com/owner of the registration. It is absent
	// if the registration has none.
	// +optional
	Owner string `json:"owner,omitempty"`

	// name is the display name of the resource type: the annotation kubernetes.io/display-name of the registration. It is
	// absent if the registration has none.
	// +optional
	Name string `json:"name,omitempty"`

	// held is the amount that overdue requests hold. It is absent if there is none.
	// +optional
	Held string `json:"held,omitempty"`

	// percent is the allocated percentage of the limit, such as 80%, or "over" for an allocated amount without a limit.
	// +optional
	Percent string `json:"percent,omitempty"`

	// totalAllocated is the sum of the amounts of granted claims.
	TotalAllocated string `json:"totalAllocated"`

	// totalLimit is the sum of the amounts in active grants.
	TotalLimit string `json:"totalLimit"`
}

// EffectiveGrantRef is a grant's part in a limit.
type EffectiveGrantRef struct {
	// amount is the grant's amount of the resource type, in base units, at least 0.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`

	// name is the grant's name.
	Name string `json:"name"`

	// namespace is the grant's namespace.
	Namespace string `json:"namespace"`

	// observedGeneration is the metadata.generation of the grant with this amount.
	ObservedGeneration int64 `json:"observedGeneration"`
}

// AllowanceBucketRef names a bucket in the same namespace.
type AllowanceBucketRef struct {
	// allocated is the allocated amount of the bucket, in base units, so that all references add up to totalAllocated:
	// for the bucket of the whole, the amount of requests without dimensions.
	// +kubebuilder:validation:Minimum=0
	Allocated int64 `json:"allocated"`

	// dimensions are the dimensions of the bucket, and absent for the one of the whole.
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
