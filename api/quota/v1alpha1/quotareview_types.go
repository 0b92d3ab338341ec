package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FieldManagerPlan is the field manager of dry runs for the stored form of an object, with defaults and the changes of
// other webhooks. Bursar admits these dry runs without a decision. A [QuotaReview] then decides on all objects of a set
// together.
const FieldManagerPlan = "bursar-plan"

// ReviewMax is the largest number of objects, and of amounts, in a [QuotaReview].
const ReviewMax = 1000

// QuotaReview asks whether objects, or amounts, fit the quota of their consumers. Bursar answers in the status of the
// created object, by the current ledgers. A review is never stored: create it with dryRun=All, such as by kubectl
// create --dry-run=server -o yaml. Bursar rejects any other create.
//
// The answer holds for the moment, and reserves nothing. Users see the quota of a consumer only with the right to get
// its EffectiveResourceGrants. The namespace of a review has no meaning, so a role in any namespace is enough to ask.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=quotareviews,scope=Namespaced,shortName=qreview,categories=bursar
type QuotaReview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec QuotaReviewSpec `json:"spec"`

	// status is the answer. Bursar overwrites the value of the client.
	// +optional
	Status *QuotaReviewStatus `json:"status,omitempty"`
}

// QuotaReviewSpec is a set of objects and amounts, 1,000 at most of each.
// +kubebuilder:validation:XValidation:rule="has(self.objects) || has(self.requests)",message="give objects, or requests"
type QuotaReviewSpec struct {
	// objects are the objects to create, change or delete, at most 1,000. Bursar decides them in this order. The quota
	// freed by one of them is available to all others of the set, except with surge.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Objects []ReviewedObject `json:"objects,omitempty"`

	// requests are amounts without an object, at most 1,000. Bursar decides them after the objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Requests []ReviewedRequest `json:"requests,omitempty"`

	// surge, if true, lets the new and the growing objects exist before the deleted and the shrinking ones free their
	// quota, as in a rolling replacement. Default: false: the freed quota is available to the rest of the set.
	// +optional
	Surge bool `json:"surge,omitempty"`
}

// ReviewedObject is an object to create, change or delete.
type ReviewedObject struct {
	// operation is Apply (the default) or Delete.
	// +optional
	// +kubebuilder:default=Apply
	Operation ReviewedOperation `json:"operation,omitempty"`

	// object is the object in its stored form, without additions of the API server to a create, such as a UID. Bursar sets
	// no defaults in it. A dry run of the field manager bursar-plan returns the object with defaults, regardless of quota.
	// For Delete, apiVersion, kind, namespace and name are enough.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	Object runtime.RawExtension `json:"object"`
}

// ReviewedOperation is the planned operation on an object.
// +kubebuilder:validation:Enum=Apply;Delete
type ReviewedOperation string

const (
	// ReviewedOperationApply creates the object, or changes it if it exists.
	ReviewedOperationApply ReviewedOperation = "Apply"

	// ReviewedOperationDelete deletes the object.
	ReviewedOperationDelete ReviewedOperation = "Delete"
)

// ReviewedRequest is an amount of a resource type for a consumer.
type ReviewedRequest struct {
	ResourceRequest `json:",inline"`

	// consumerRef is the consumer.
	ConsumerRef ConsumerRef `json:"consumerRef"`
}

// QuotaReviewStatus is the answer to a review.
type QuotaReviewStatus struct {
	// result is Fits if everything fits, DoesNotFit if something does not fit, and otherwise Unknown.
	Result ReviewResult `json:"result"`

	// message is the result in a sentence, for people.
	Message string `json:"message"`

	// objects are the answers to spec.objects, in the same order.
	// +optional
	// +listType=atomic
	Objects []ReviewedObjectResult `json:"objects,omitempty"`

	// requests are the answers to spec.requests, in the same order.
	// +optional
	// +listType=atomic
	Requests []ReviewedRequestResult `json:"requests,omitempty"`

	// quotas are the effects of the set on each quota, sorted by consumer, resource type and dimensions. Quotas hidden
	// from the user are absent.
	// +optional
	// +listType=atomic
	Quotas []ReviewedQuota `json:"quotas,omitempty"`
}

// ReviewResult is the answer in a word.
// +kubebuilder:validation:Enum=Fits;DoesNotFit;Unknown
type ReviewResult string

const (
	// ReviewResultFits means that Bursar would admit it.
	ReviewResultFits ReviewResult = "Fits"

	// ReviewResultDoesNotFit means that Bursar would deny it.
	ReviewResultDoesNotFit ReviewResult = "DoesNotFit"

	// ReviewResultUnknown means that Bursar cannot decide, or that the user may not see the quota.
	ReviewResultUnknown ReviewResult = "Unknown"
)

// ReviewedObjectResult is the answer for an object.
type ReviewedObjectResult struct {
	// apiVersion is the API group and version of the object.
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the object.
	Kind string `json:"kind"`

	// namespace is the namespace of the object. It is absent for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// operation is Create, Update or Delete. It is absent if Bursar does not know it.
	// +optional
	Operation string `json:"operation,omitempty"`

	ReviewedResult `json:",inline"`

	// policies are the matching ClaimCreationPolicies, with their mode.
	// +optional
	// +listType=atomic
	Policies []ReviewedPolicy `json:"policies,omitempty"`

	// charges are the changes of the use of consumers by the operation.
	// +optional
	// +listType=atomic
	Charges []ReviewedCharge `json:"charges,omitempty"`
}

// ReviewedRequestResult is the answer for an amount.
type ReviewedRequestResult struct {
	ReviewedResult `json:",inline"`
}

// ReviewedResult is an answer.
type ReviewedResult struct {
	// result is Fits, DoesNotFit or Unknown.
	Result ReviewResult `json:"result"`

	// message is the text of the denial, or the reason for the result Unknown. With the result Fits it is a warning, such
	// as of a policy in the mode Warn or Audit that would deny the object in the mode Enforce.
	// +optional
	Message string `json:"message,omitempty"`

	// causes are the causes of the denial or of the warning, for programs.
	// +optional
	// +listType=atomic
	Causes []ReviewedCause `json:"causes,omitempty"`
}

// ReviewedPolicy is a ClaimCreationPolicy for an object.
type ReviewedPolicy struct {
	// name is the policy's name.
	Name string `json:"name"`

	// enforcementMode is Enforce, Warn or Audit.
	EnforcementMode EnforcementMode `json:"enforcementMode"`
}

// ReviewedCause is a cause of a denial or of a warning.
type ReviewedCause struct {
	// type is the type of the cause: QuotaExceeded, NothingGranted or PolicyNotApplicable.
	Type metav1.CauseType `json:"type"`

	// consumerRef is the consumer without enough quota. It is absent if no consumer is known.
	// +optional
	ConsumerRef *ConsumerRef `json:"consumerRef,omitempty"`

	// resourceType is the lacking resource type. It is absent for PolicyNotApplicable.
	// +optional
	ResourceType string `json:"resourceType,omitempty"`

	// dimensions are the dimensions of the lacking request.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`
}

// ReviewedCharge is a change of a consumer's use.
type ReviewedCharge struct {
	// consumerRef is the consumer.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// resourceType is the resource type of the charge.
	ResourceType string `json:"resourceType"`

	// dimensions are the dimensions of the charge. They are absent for a charge without dimensions.
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// amount is the change of the use, in base units. It is negative if the use shrinks.
	Amount int64 `json:"amount"`
}

// ReviewedQuota is the effect of a set on a quota. Amounts are in base units.
type ReviewedQuota struct {
	ReviewedCharge `json:",inline"`

	// limit is the sum of the allowances in active grants for requests with these dimensions.
	Limit int64 `json:"limit"`

	// used is what requests of any dimensions take of the limit now.
	Used int64 `json:"used"`

	// available is the rest for requests with these dimensions.
	Available int64 `json:"available"`

	// availableAfter is the rest after the fitting part of the set.
	AvailableAfter int64 `json:"availableAfter"`

	// display has the same figures for people, in the display unit of the registration.
	Display DisplayedReview `json:"display"`
}

// DisplayedReview has the figures of a ReviewedQuota as text with units, such as "1.5 GiB".
type DisplayedReview struct {
	// amount is the change of the use, with a sign.
	Amount string `json:"amount"`

	// limit is the sum of the allowances in active grants for requests with these dimensions.
	Limit string `json:"limit"`

	// used is what requests of any dimensions take of the limit now.
	Used string `json:"used"`

	// available is the rest for requests with these dimensions.
	Available string `json:"available"`

	// availableAfter is the rest after the fitting part of the set.
	AvailableAfter string `json:"availableAfter"`
}

// QuotaReviewList is a list of reviews. The API server stores none, so its lists are empty.
//
// +kubebuilder:object:root=true
type QuotaReviewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaReview `json:"items"`
}
