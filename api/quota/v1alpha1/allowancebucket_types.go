package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AllowanceBucket shows the quota that a consumer has of one resource type: the limit, what is
// taken, and what is left. Bursar keeps one for each pair that a grant or a claim names, and beside
// it one for each set of dimensions in use; they stay when they are not used any more, those by
// dimensions up to 1024 for a pair. An EffectiveResourceGrant owns them. A bucket is for reading:
// decisions are made on the ledger, which it follows within about a second.
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

	// spec says whose quota of what is shown. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: a bucket is of one consumer and one resource type for good"
	Spec AllowanceBucketSpec `json:"spec"`

	// status is the quota and its use, in base units of the resource type.
	// +optional
	Status AllowanceBucketStatus `json:"status,omitzero"`
}

// AllowanceBucketSpec says whose quota of what the bucket shows. It cannot be changed.
type AllowanceBucketSpec struct {
	// consumerRef is the consumer whose quota is shown.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// dimensions are those of the requests shown. Empty (the default), the bucket shows the resource
	// type as a whole, whatever the dimensions.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// resourceType is the resource type shown, in 1 to 253 characters: the spec.resourceType of a
	// registration.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}

// AllowanceBucketStatus is the quota and its use, in base units.
type AllowanceBucketStatus struct {
	// allocated is the sum of what granted claims hold, at least 0; with spec.dimensions, of those
	// requests that have exactly these. It exceeds the limit where
	// grants have shrunk below what was in use.
	// +kubebuilder:validation:Minimum=0
	Allocated int64 `json:"allocated"`

	// available is, with spec.dimensions, the largest amount that would be granted for them right
	// now; it may be less than the limit less what is allocated, as other dimensions use the same
	// allowances. For the resource type as a whole it is what is left of the limit, of which a
	// request may find less where allowances carry dimension selectors. It is 0 where more is
	// allocated than the limit.
	// +kubebuilder:validation:Minimum=0
	Available int64 `json:"available"`

	// claimCount is the number of granted claims that hold some of this type.
	// +kubebuilder:validation:Minimum=0
	ClaimCount int32 `json:"claimCount"`

	// contributingGrantRefs are the active grants that the limit is made of: with spec.dimensions,
	// those with an allowance that matches them.
	// +optional
	ContributingGrantRefs []ContributingGrantRef `json:"contributingGrantRefs,omitempty"`

	// display shows the figures in display units, for people to read. It is absent while the resource type has no active
	// registration.
	// +optional
	Display *DisplayedBucket `json:"display,omitempty"`

	// grantCount is the number of active grants that the limit is made of.
	// +kubebuilder:validation:Minimum=0
	GrantCount int32 `json:"grantCount"`

	// lastReconciliation is when the status was last written: at once when it changes and, for the bucket
	// of the resource type as a whole, otherwise at most once a minute while the consumer's ledger changes.
	// While nothing changes it stays as it is, and the status is up to date all the same.
	// +optional
	LastReconciliation *metav1.Time `json:"lastReconciliation,omitempty"`

	// limit is the sum of what active grants give, at least 0; with spec.dimensions, of the
	// allowances that match them.
	// +kubebuilder:validation:Minimum=0
	Limit int64 `json:"limit"`

	// observedGeneration is the metadata.generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// DisplayedBucket is the figures of a bucket as text.
type DisplayedBucket struct {
	// dimensions are those of the bucket by the last segments of their keys, such as "location=DFW", in at
	// most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Dimensions string `json:"dimensions,omitempty"`

	// percent is the allocated part of the limit, such as 80%, or "over" if something is allocated without
	// a limit.
	Percent string `json:"percent"`

	// used is what is allocated of the limit in display units, such as "8/10 GiB".
	Used string `json:"used"`
}

// ContributingGrantRef is a grant's part in a limit.
type ContributingGrantRef struct {
	// amount is what the grant gives of what the bucket shows, in base units, at least 0.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`

	// lastObservedGeneration is the metadata.generation of the grant that amount was taken from.
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
