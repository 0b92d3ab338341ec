package v1alpha1

// Labels that Bursar sets on its objects. A claim of a ClaimCreationPolicy has LabelAutoCreated, LabelPolicy and
// LabelGVK. A grant of a GrantCreationPolicy has LabelAutoCreated, LabelPolicy, LabelPolicyUID and LabelSource. Every
// claim and AllowanceBucket has the two labels of the consumer, and every EffectiveResourceGrant the last three. A
// policy's name that is too long for a label is cut and ends in a hash; any other label is omitted if its value is not
// a valid label value.
const (
	// LabelAutoCreated is "true" on objects that a policy created and absent from all others. Bursar sets it.
	LabelAutoCreated = GroupName + "/auto-created"

	// LabelPolicy names the policy that created the object. Bursar sets it.
	LabelPolicy = GroupName + "/policy"

	// LabelPolicyUID is the UID of the policy that created a grant. The policy finds its grants by it, even in a
	// control plane with grants of policies of the same name from other control planes. Bursar sets it.
	LabelPolicyUID = GroupName + "/policy-uid"

	// LabelSource is the source of a grant: the name of the policy that created it, unless the policy's template sets
	// another value. Users may set it freely on other grants. Bursar sets it.
	LabelSource = GroupName + "/source"

	// LabelGVK is the kind of a claim's object, with its group and version. Bursar sets it.
	LabelGVK = GroupName + "/gvk"

	// LabelConsumerKind is the kind of the object's consumer. Bursar sets it.
	LabelConsumerKind = GroupName + "/consumer-kind"

	// LabelConsumerName is the name of the object's consumer. Bursar sets it.
	LabelConsumerName = GroupName + "/consumer-name"

	// LabelResourceType is the object's resource type, with a dot for every slash, as label values have no slashes. To
	// find the objects of exactly one type, select by the field spec.resourceType. Bursar sets it.
	LabelResourceType = GroupName + "/resource-type"
)

// Annotations that Bursar sets on claims of a ClaimCreationPolicy and, except for the reservation, on grants of a
// GrantCreationPolicy.
const (
	// AnnotationCreatedBy is the creator of the claim or grant: [CreatedByClaimCreation] or [CreatedByGrantCreation].
	// Bursar sets it.
	AnnotationCreatedBy = GroupName + "/created-by"

	// AnnotationCreatedAt is the time at which the claim was decided, or the grant made, in RFC 3339. Bursar sets it.
	AnnotationCreatedAt = GroupName + "/created-at"

	// AnnotationResourceName is the name of the object that the claim or grant was made for. Bursar sets it.
	AnnotationResourceName = GroupName + "/resource-name"

	// AnnotationResourceUID is the UID of that object. It distinguishes the object from a later one of the same name.
	// Bursar sets it.
	AnnotationResourceUID = GroupName + "/resource-uid"

	// AnnotationReservation is the sequence, in the consumer's ledger, of the reservation that the claim was made
	// from. Bursar sets it.
	AnnotationReservation = GroupName + "/reservation"

	// AnnotationSuperseded is "true" on a claim that Bursar removes although its object exists, because the object now
	// costs another consumer, or nothing. Bursar sets it.
	AnnotationSuperseded = GroupName + "/superseded"

	// AnnotationResize has the requests that a granted claim is to be resized to, as JSON in the form of its
	// spec.requests. On a policy's claim it is rejected. Bursar decides it as a
	// whole or not at all; a resize without an increase is always granted. Then the requests become the claim's
	// spec.requests; until then the claim has the condition [ConditionResizePending]. On a claim that is not granted
	// the annotation has no effect until it is. People set it.
	AnnotationResize = GroupName + "/resize"

	// AnnotationChangedBy is, on a grant, the user who created it or last changed its spec, and on a claim that was
	// created directly, who created it or last asked for a resize. On a grant that was made on a QuotaRequest it has
	// the users who approved it. Bursar sets it.
	AnnotationChangedBy = GroupName + "/changed-by"

	// AnnotationDeletedBy is, on a grant, the time of a request to delete it, and its user. Bursar sets it.
	AnnotationDeletedBy = GroupName + "/deleted-by"

	// AnnotationRelease is "true" on a claim that releases its charge as soon as it is deleted, although the object of
	// its spec.resourceRef exists. Users who may update the claim can set it at any time; on a policy's claim it is
	// rejected. Without it, a deleted claim holds its charge until that object is gone. People set it.
	AnnotationRelease = GroupName + "/release"

	// AnnotationExceededAdvice is a registration's advice for exceeded quota of its resource type, instead of the
	// platform's: one or more sentences of at most [ExceededAdviceMax] bytes, with {{name}} as placeholder of the
	// consumer's name. People set it.
	AnnotationExceededAdvice = GroupName + "/exceeded-advice"

	// AnnotationAlertThreshold is the percentage of a limit at which a consumer counts as near it, a whole number from
	// 1 to 100. On a grant it applies to the consumer and the resource types of the grant, and the lowest of several
	// counts; on a registration to all consumers of the resource type. A [QuotaAlert] comes first. Default: the
	// platform's threshold, or 80. People set it.
	AnnotationAlertThreshold = GroupName + "/alert-threshold-percent"

	// AnnotationDisplayName is the annotation that Kubernetes keeps for the name of an object for people. On a
	// registration it names the resource type, with at most [DisplayNameMax] characters. People set it.
	AnnotationDisplayName = "kubernetes.io/display-name"

	// AnnotationDescription is the annotation that Kubernetes keeps for the description of an object for people. On a
	// registration it describes the resource type, instead of spec.description. People set it.
	AnnotationDescription = "kubernetes.io/description"

	// AnnotationTemplateKeys lists, as JSON, the keys of a grant's labels and annotations from its policy's template.
	// If the template drops a key, it is removed. Keys that others have added stay. Bursar sets it.
	AnnotationTemplateKeys = GroupName + "/template-keys"

	// AnnotationParentContext names the object that represents the control plane of a policy's grant, as
	// Kind.group/name. Several registrations may reach one API server; each manages its own grants. A grant in the
	// policy's own control plane has none. Bursar sets it.
	AnnotationParentContext = GroupName + "/parent-context"
)

// AnnotationUnfinished tells on a ConsumerLedger, without its spec, what replicas of Bursar have yet to finish: the
// sequence of the oldest reservation in flight; without reservations "slices" if there are slices, "released" if there
// are records of released claims, "journal" if there are changes that the journal does not have, or "none". Bursar
// sets it.
const AnnotationUnfinished = GroupName + "/unfinished"

// Annotations of a grant that was made on a QuotaRequest.
const (
	// AnnotationRequest is, on a grant that was made on a QuotaRequest, the name of the request in the same namespace.
	// Bursar sets it.
	AnnotationRequest = GroupName + "/request"

	// AnnotationRequestUID is, on such a grant, the UID of the request. Bursar sets it.
	AnnotationRequestUID = GroupName + "/request-uid"
)

// CreatedByClaimCreation is the value of [AnnotationCreatedBy] on claims made by a policy.
const CreatedByClaimCreation = "claim-creation-plugin"

// CreatedByGrantCreation is the value of [AnnotationCreatedBy] on grants made by a policy.
const CreatedByGrantCreation = "grant-creation-controller"

// FinalizerQuotaRelease keeps a deleted claim until its charge has been released. Removing it by hand leaves the
// charge in the ledger until the next audit. Bursar sets it.
const FinalizerQuotaRelease = GroupName + "/quota-release"

// FinalizerInUse keeps a deleted registration until no grant and no enabled ClaimCreationPolicy uses its resource
// type. An active registration has it. Removing it by hand ends the enforcement of these policies. Bursar sets it.
const FinalizerInUse = GroupName + "/in-use"

// Finalizers of GrantCreationPolicies, which keep a deleted policy until its grants are gone. A disabled policy loses
// them once it has no grants. Removing one by hand leaves grants behind.
const (
	// FinalizerGrants is for the grants in the policy's own control plane. Bursar sets it.
	FinalizerGrants = GroupName + "/grants"

	// FinalizerParentGrants is for the grants in other control planes. A policy has it from the time when it names a
	// parent context until it has no grants left in one. Bursar sets it.
	FinalizerParentGrants = GroupName + "/parent-grants"
)

// AnnotationControlPlanes lists on a GrantCreationPolicy, as JSON, the other control planes with its grants. A deleted
// policy stays until its grants there are gone. Bursar sets it.
const AnnotationControlPlanes = GroupName + "/control-planes"

// Labels of a Secret in Bursar's system namespace that registers a control plane, by the object that represents it. A
// value that is not a valid label value may be in an annotation of the same name. The Secret has a kubeconfig under the
// key kubeconfig or value.
const (
	// LabelControlPlaneGroup is, on a Secret that registers a control plane, the API group of the object for it.
	// People set it.
	LabelControlPlaneGroup = GroupName + "/control-plane-group"

	// LabelControlPlaneKind is, on such a Secret, the kind of that object. People set it.
	LabelControlPlaneKind = GroupName + "/control-plane-kind"

	// LabelControlPlaneName is, on such a Secret, the name of that object. People set it.
	LabelControlPlaneName = GroupName + "/control-plane-name"
)

// ExceededAdviceMax bounds the bytes of advice, see [AnnotationExceededAdvice].
const ExceededAdviceMax = 500

// LabelOwner names, on a registration, the service that the resource type belongs to, such as networking.example.com.
// It groups resource types. People set it.
const LabelOwner = "services.miloapis.com/owner"

// DescriptionMax bounds the characters of a description, see [AnnotationDescription]. A longer one is cut.
const DescriptionMax = 500

// DisplayNameMax bounds the characters of a display name, see [AnnotationDisplayName].
const DisplayNameMax = 80
