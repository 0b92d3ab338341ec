package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FieldManagerPlan is the field manager of dry runs that ask only what the API server would store of an object, with
// defaults and the changes of other webhooks. Bursar admits them without a decision, so that a [QuotaReview] can decide on
// all objects of a set together.
const FieldManagerPlan = "bursar-plan"

// ReviewMax is how many objects, and how many amounts, a [QuotaReview] may have.
const ReviewMax = 1000

// QuotaReview asks whether objects, or amounts, fit the quota of those who would pay for them. Bursar answers in the
// status of the created object, as of the current ledgers. It is never stored: create it with dryRun=All, such as by
// kubectl create --dry-run=server -o yaml. Bursar rejects any other create.
//
// The answer holds for the moment, and reserves nothing. It tells users only of the quota that they may see: that of
// consumers whose EffectiveResourceGrants they may get. The namespace of a review means nothing, so that a role in any
// namespace is enough to ask.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=quotareviews,scope=Namespaced,shortName=qreview,categories=bursar
type QuotaReview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec QuotaReviewSpec `json:"spec"`

	// status is the answer. Bursar replaces what a client writes here.
	// +optional
	Status *QuotaReviewStatus `json:"status,omitempty"`
}

// QuotaReviewSpec is a set of objects and amounts, 1,000 at most of each.
// +kubebuilder:validation:XValidation:rule="has(self.objects) || has(self.requests)",message="give objects, or requests"
type QuotaReviewSpec struct {
	// objects are to be created, changed or deleted, and are decided in this order. What they free is there for all others
	// of the set, see surge.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Objects []ReviewedObject `json:"objects,omitempty"`

	// requests are amounts without an object. They are decided after the objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Requests []ReviewedRequest `json:"requests,omitempty"`

	// surge means that new objects and larger ones exist before those that are to be deleted or to shrink have freed their
	// quota, as in a rolling replacement. The default is false: what the set frees is there for the rest of it.
	// +optional
	Surge bool `json:"surge,omitempty"`
}

// ReviewedObject is an object that is to be created, changed or deleted.
type ReviewedObject struct {
	// operation is Apply (the default) or Delete.
	// +optional
	// +kubebuilder:default=Apply
	Operation ReviewedOperation `json:"operation,omitempty"`

	// object is the object as it is to be stored, without what the API server adds to a create, such as a UID. Bursar sets
	// no defaults in it. A dry run of the field manager bursar-plan
	// returns it with defaults, whatever quota there is. To be deleted, it needs no more than its kind, namespace and name.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	Object runtime.RawExtension `json:"object"`
}

// ReviewedOperation is what is to happen to an object.
// +kubebuilder:validation:Enum=Apply;Delete
type ReviewedOperation string

const (
	// ReviewedOperationApply creates the object, or changes it if it exists.
	ReviewedOperationApply ReviewedOperation = "Apply"

	// ReviewedOperationDelete deletes the object.
	ReviewedOperationDelete ReviewedOperation = "Delete"
)

// ReviewedRequest is an amount of a resource type that a consumer is to pay for.
type ReviewedRequest struct {
	ResourceRequest `json:",inline"`

	// consumerRef is the consumer.
	ConsumerRef ConsumerRef `json:"consumerRef"`
}

// QuotaReviewStatus is the answer to a review.
type QuotaReviewStatus struct {
	// result is Fits if everything fits, DoesNotFit if something does not, and otherwise Unknown.
	Result ReviewResult `json:"result"`

	// message says it in a sentence, for people.
	Message string `json:"message"`

	// objects are the answers to spec.objects, in the same order.
	// +optional
	// +listType=atomic
	Objects []ReviewedObjectResult `json:"objects,omitempty"`

	// requests are the answers to spec.requests, in the same order.
	// +optional
	// +listType=atomic
	Requests []ReviewedRequestResult `json:"requests,omitempty"`

	// quotas are what the set takes of each quota, sorted by consumer, resource type and dimensions. They lack quotas that
	// the user may not see.
	// +optional
	// +listType=atomic
	Quotas []ReviewedQuota `json:"quotas,omitempty"`
}

// ReviewResult is the answer in a word.
// +kubebuilder:validation:Enum=Fits;DoesNotFit;Unknown
type ReviewResult string

const (
	// ReviewResultFits means that it would be admitted.
	ReviewResultFits ReviewResult = "Fits"

	// ReviewResultDoesNotFit means that it would be denied.
	ReviewResultDoesNotFit ReviewResult = "DoesNotFit"

	// ReviewResultUnknown means that it cannot be told, or that the user may not see it.
	ReviewResultUnknown ReviewResult = "Unknown"
)

// ReviewedObjectResult is the answer for an object.
type ReviewedObjectResult struct {
	// apiVersion, kind, namespace and name identify the object.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`

	// operation is Create, Update or Delete, and absent if that is unknown.
	// +optional
	Operation string `json:"operation,omitempty"`

	ReviewedResult `json:",inline"`

	// policies are those that match the object, with their mode.
	// +optional
	// +listType=atomic
	Policies []ReviewedPolicy `json:"policies,omitempty"`

	// charges are what the operation adds to the use of consumers, or takes from it.
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

	// message is the denial that the user would get, or why the answer is unknown. With the result Fits it is a warning,
	// such as of a policy in the mode Warn.
	// +optional
	Message string `json:"message,omitempty"`

	// causes are those of the denial, for programs.
	// +optional
	// +listType=atomic
	Causes []ReviewedCause `json:"causes,omitempty"`
}

// ReviewedPolicy is a ClaimCreationPolicy that matches an object.
type ReviewedPolicy struct {
	// name is the policy's name.
	Name string `json:"name"`

	// enforcementMode is Enforce, Warn or Audit.
	EnforcementMode EnforcementMode `json:"enforcementMode"`
}

// ReviewedCause is a cause of a denial.
type ReviewedCause struct {
	// type is that of a denial's cause: QuotaExceeded, NothingGranted or PolicyNotApplicable.
	Type metav1.CauseType `json:"type"`

	// consumerRef is the consumer that lacks quota.
	// +optional
	ConsumerRef *ConsumerRef `json:"consumerRef,omitempty"`

	// resourceType is the resource type that the consumer lacks, and dimensions are those of the request.
	// +optional
	ResourceType string `json:"resourceType,omitempty"`
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`
}

// ReviewedCharge is a change of a consumer's use.
type ReviewedCharge struct {
	// consumerRef is the consumer.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// resourceType and dimensions name the account.
	ResourceType string `json:"resourceType"`
	// +optional
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// amount is added to the use, in base units. It is negative if the use shrinks.
	Amount int64 `json:"amount"`
}

// ReviewedQuota is what a set takes of a quota. Amounts are in base units.
type ReviewedQuota struct {
	ReviewedCharge `json:",inline"`

	// limit is the sum of the active grants, used what is used of it now, and available what is left for requests with
	// these dimensions.
	Limit     int64 `json:"limit"`
	Used      int64 `json:"used"`
	Available int64 `json:"available"`

	// availableAfter is what would be left after the part of the set that fits.
	AvailableAfter int64 `json:"availableAfter"`

	// display has the same figures for people, in the display unit of the registration.
	Display DisplayedReview `json:"display"`
}

// DisplayedReview has the figures of a ReviewedQuota as text with units, such as "1.5 GiB".
type DisplayedReview struct {
	// amount has a sign.
	Amount         string `json:"amount"`
	Limit          string `json:"limit"`
	Used           string `json:"used"`
	Available      string `json:"available"`
	AvailableAfter string `json:"availableAfter"`
}

// QuotaReviewList is a list of reviews. The API server has none to list.
//
// +kubebuilder:object:root=true
type QuotaReviewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []QuotaReview `json:"items"`
}
