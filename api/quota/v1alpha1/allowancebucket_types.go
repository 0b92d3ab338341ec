package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AllowanceBucket has a consumer's quota of one resource type: the limit, the allocated and the available amount.
// Bursar maintains one for each pair in a grant or a claim, and in addition one for each set of dimensions in use.
// Unused buckets stay; those for dimensions up to 1024 for a pair. An EffectiveResourceGrant owns them. A bucket is
// only for reading: decisions use the ledger. The bucket shows the first change after a quiet time within a second, and
// further ones every few seconds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=allowancebuckets,scope=Namespaced,shortName=abucket,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.resourceType`
// +kubebuilder:printcolumn:name="Resource Type",type=string,JSONPath=`.spec.resourceType`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.status.limit`
// +kubebuilder:printcolumn:name="Allocated",type=integer,JSONPath=`.status.allocated`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="Claims",type=integer,JSONPath=`.status.claimCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Consumer",type=string,JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Dimensions",type=string,JSONPath=`.status.display.dimensions`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.display.used`
// +kubebuilder:printcolumn:name="Percent",type=string,JSONPath=`.status.display.percent`
// +kubebuilder:printcolumn:name="Consumer Type",type=string,JSONPath=`.spec.consumerRef.kind`,priority=1
// +kubebuilder:printcolumn:name="Reconciled",type=date,JSONPath=`.status.lastReconciliation`,priority=1
type AllowanceBucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the consumer and the resource type of the quota. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: a bucket is of one consumer and one resource type for good"
	Spec AllowanceBucketSpec `json:"spec"`

	// status is the quota and its use, in base units of the resource type.
	// +optional
	Status AllowanceBucketStatus `json:"status,omitzero"`
}

// AllowanceBucketSpec is the consumer and the resource type of the bucket's quota. It is immutable.
type AllowanceBucketSpec struct {
	// consumerRef is the consumer with the quota.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// dimensions are the dimensions of the counted requests. Empty (the default), the bucket is for the whole resource
	// type, whatever the dimensions.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// resourceType is the resource type of the quota, in 1 to 253 characters: the spec.resourceType of a registration.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}

// AllowanceBucketStatus is the quota and its use, in base units.
type AllowanceBucketStatus struct {
	// allocated is the sum of the amounts of granted claims, at least 0; with spec.dimensions, of the requests with
	// exactly these. It exceeds the limit if grants have shrunk below the use.
	// +kubebuilder:validation:Minimum=0
	Allocated int64 `json:"allocated"`

	// available is, with spec.dimensions, the largest amount available for them right now. It may be less than limit minus
	// allocated, because other dimensions use the same allowances. For the whole resource type it is the rest of the
	// limit; a request may find less if allowances have dimension selectors. It is 0 if the allocated amount exceeds the
	// limit.
	// +kubebuilder:validation:Minimum=0
	Available int64 `json:"available"`

	// claimCount is the number of granted claims with an amount of this type, including claims under creation.
	// +kubebuilder:validation:Minimum=0
	ClaimCount int32 `json:"claimCount"`

	// contributingGrantRefs are the active grants in the limit: with spec.dimensions, those with a matching allowance.
	// +optional
	ContributingGrantRefs []ContributingGrantRef `json:"contributingGrantRefs,omitempty"`

	// display has the figures in display units, for people. It is absent while the resource type has no active
	// registration.
	// +optional
	Display *DisplayedBucket `json:"display,omitempty"`

	// feature is On or Off for a resource type of type Feature, and absent for every other. It is On while limit is more
	// than 0. Then allocated only counts, and available is the limit.
	// +optional
	Feature FeatureState `json:"feature,omitempty"`

	// grantCount is the number of active grants in the limit.
	// +kubebuilder:validation:Minimum=0
	GrantCount int32 `json:"grantCount"`

	// held is the amount that overdue requests hold: Bursar admitted them some seconds ago, and does not see their effect,
	// because something else rejected them. It is not available, but no object uses it, so allocated does not contain
	// it. It returns by itself. It is absent if it is 0.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Held int64 `json:"held,omitempty"`

	// lastReconciliation is the time of the last write of the status. Bursar writes the status at once after a change of
	// its figures. It also writes the bucket of the whole resource type at most once a minute while the consumer's ledger
	// changes. While nothing changes, the status is up to date without a write.
	// +optional
	LastReconciliation *metav1.Time `json:"lastReconciliation,omitempty"`

	// limit is the sum of the amounts in active grants, at least 0; with spec.dimensions, of the matching allowances.
	// +kubebuilder:validation:Minimum=0
	Limit int64 `json:"limit"`

	// observedGeneration is the metadata.generation behind the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DisplayedBucket has the figures of a bucket as text.
type DisplayedBucket struct {
	// dimensions are the dimensions of the bucket by the last segments of their keys, such as "location=DFW", in at
	// most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Dimensions string `json:"dimensions,omitempty"`

	// percent is the allocated percentage of the limit, such as 80%, or "over" for an allocated amount without a limit. It
	// is empty for a resource type of type Feature.
	Percent string `json:"percent"`

	// used is allocated and limit in display units, such as "8/10 GiB". For a resource type of type Feature it is On or
	// Off, with the counted amount, such as "On (2 seats)".
	Used string `json:"used"`
}

// ContributingGrantRef is a grant's part in a limit.
type ContributingGrantRef struct {
	// amount is the grant's amount in the limit of the bucket, in base units, at least 0.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`

	// lastObservedGeneration is the metadata.generation of the grant with this amount.
	LastObservedGeneration int64 `json:"lastObservedGeneration"`

	// name is the grant's name.
	Name string `json:"name"`
}

// AllowanceBucketList is a list of buckets.
//
// +kubebuilder:object:root=true
type AllowanceBucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AllowanceBucket `json:"items"`
}
