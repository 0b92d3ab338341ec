package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// UsageLimitMax is the highest limit of a [QuotaUsage], in objects.
	UsageLimitMax = 1000

	// UsageLimitDefault is the limit of a [QuotaUsage] without one, in objects.
	UsageLimitDefault = 100

	// UsageContinueMax is the length of the longest continue token of a [QuotaUsage], in bytes.
	UsageContinueMax = 4096
)

// QuotaUsage asks which objects use quota by policies that count objects, with or without claims. Claims of record use
// quota, too: these are ResourceClaims. Bursar answers in the status of the created object. A usage is never stored:
// create it with dryRun=All, such as by kubectl create --dry-run=server -o yaml. Bursar rejects any other create.
//
// Users see an object with the right to get ResourceClaims in its namespace or, for a cluster-scoped object, in the
// namespace of the consumer's quota. With the right to get the ConsumerLedger of the consumer, they see all. Everything
// else is in status.hidden. A question about all namespaces needs the right to get the EffectiveResourceGrants of the
// consumer or, without a consumer, those in all namespaces. Bursar denies all others. The namespace of a QuotaUsage has
// no meaning, so a role in any namespace is enough to ask.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=quotausages,scope=Namespaced,shortName=qusage,categories=bursar
type QuotaUsage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec QuotaUsageSpec `json:"spec"`

	// status is the answer. Bursar overwrites the value of the client.
	// +optional
	Status *QuotaUsageStatus `json:"status,omitempty"`
}

// QuotaUsageSpec selects objects.
// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__) || !has(self.resourceRef)",message="give a namespace or a resourceRef, not both"
type QuotaUsageSpec struct {
	// consumerRef selects the objects of one consumer. Absent (the default), the answer has those of all consumers.
	// +optional
	ConsumerRef *ConsumerRef `json:"consumerRef,omitempty"`

	// resourceType selects the objects that use a resource type, and their use of it, in at most 253 characters. The
	// largest come first. Absent (the default), the answer has all types, and the latest objects come first.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType,omitempty"`

	// namespace selects the objects in one namespace. It needs the right to get ResourceClaims there. Absent (the
	// default), the answer has the objects in all namespaces, and cluster-scoped ones.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// resourceRef selects one object. It excludes namespace. Absent (the default), the answer has all objects.
	// +optional
	ResourceRef *UnversionedObjectReference `json:"resourceRef,omitempty"`

	// limit is the largest number of objects in the answer, 1 to 1000. Default: 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Limit int32 `json:"limit,omitempty"`

	// continue is the status.continue of the page before, with the rest of the spec unchanged except for limit. Absent
	// (the default), the answer is the first page. While objects come and go between two pages, all others are on one
	// page. An object with a changed amount may be on two pages, or on none.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Continue string `json:"continue,omitempty"`
}

// QuotaUsageStatus is a page of objects.
type QuotaUsageStatus struct {
	// objects are the visible objects. An object that uses the quota of several consumers is there for each of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Objects []QuotaUsageObject `json:"objects,omitempty"`

	// continue is the spec.continue for the next page. It is absent on the last page. Its form may change with any
	// release.
	// +optional
	Continue string `json:"continue,omitempty"`

	// remaining is the number of visible objects after this page.
	// +optional
	Remaining int64 `json:"remaining,omitempty"`

	// hidden sums up the selected objects that the user may not see, on any page. It is absent without any.
	// +optional
	Hidden *HiddenUsage `json:"hidden,omitempty"`

	// uncounted are the kinds under policies whose objects are missing in the answer, such as Deployment.apps: Bursar has
	// not listed them yet, or may not.
	// +optional
	// +listType=atomic
	Uncounted []string `json:"uncounted,omitempty"`
}

// QuotaUsageObject is the use of a consumer's quota by an object.
type QuotaUsageObject struct {
	// consumerRef is the consumer. It is absent if the question is about one consumer.
	// +optional
	ConsumerRef *ConsumerRef `json:"consumerRef,omitempty"`

	// resourceRef is the object.
	ResourceRef UnversionedObjectReference `json:"resourceRef"`

	// creationTimestamp is when the object was created.
	CreationTimestamp metav1.Time `json:"creationTimestamp"`

	// policies are the names of the ClaimCreationPolicies by which the object counts.
	// +listType=atomic
	Policies []string `json:"policies"`

	// amounts are what the object uses now, by resource type and dimensions.
	// +listType=atomic
	Amounts []UsedAmount `json:"amounts"`
}

// HiddenUsage sums up objects.
type HiddenUsage struct {
	// objects is the number of objects.
	Objects int64 `json:"objects"`

	// amounts are the sums of what they use now, by resource type and without dimensions.
	// +listType=atomic
	Amounts []UsedAmount `json:"amounts"`
}

// UsedAmount is an amount of a resource type in use.
type UsedAmount struct {
	// resourceType is the resource type.
	ResourceType string `json:"resourceType"`

	// dimensions are the dimensions of the amount. They are absent for an amount without dimensions.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// amount is in base units.
	Amount int64 `json:"amount"`
}

// QuotaUsageList is a list of usages. The API server stores none, so its lists are empty.
//
// +kubebuilder:object:root=true
type QuotaUsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaUsage `json:"items"`
}
