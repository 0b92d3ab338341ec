package v1alpha1

// Labels that Bursar sets on what it creates. Every claim made by a ClaimCreationPolicy carries
// LabelAutoCreated, LabelPolicy and LabelGVK, every grant made by a GrantCreationPolicy
// LabelAutoCreated, LabelPolicy, LabelPolicyUID and LabelSource, every claim and AllowanceBucket the two that
// name the consumer, and every EffectiveResourceGrant the last three. Of a policy's name that is too
// long for a label, its beginning and a hash are given; any other label is left out where its value
// cannot be one.
const (
	// LabelAutoCreated is "true" on objects that a policy created and absent from all others.
	LabelAutoCreated = GroupName + "/auto-created"

	// LabelPolicy names the policy that created the object.
	LabelPolicy = GroupName + "/policy"

	// LabelPolicyUID is the UID of the policy that created a grant. By it the policy finds its grants,
	// also in a control plane that other policies of the same name, from elsewhere, make grants in.
	LabelPolicyUID = GroupName + "/policy-uid"

	// LabelSource tells where a grant comes from: the name of the policy that created it, unless the
	// policy's template gives another value. On other grants people set it as they like.
	LabelSource = GroupName + "/source"

	// LabelGVK tells the kind of the object that a claim pays for, with its group and version.
	LabelGVK = GroupName + "/gvk"

	// LabelConsumerKind is the kind of the consumer that the object is about.
	LabelConsumerKind = GroupName + "/consumer-kind"

	// LabelConsumerName is the name of the consumer that the object is about.
	LabelConsumerName = GroupName + "/consumer-name"

	// LabelResourceType is the resource type that the object is about, with a dot for every slash,
	// as label values have no slashes. To find the objects of exactly one type, select by the
	// field spec.resourceType.
	LabelResourceType = GroupName + "/resource-type"
)

// Annotations that Bursar sets on claims made by a ClaimCreationPolicy and, but for the
// reservation, on grants made by a GrantCreationPolicy.
const (
	// AnnotationCreatedBy tells what made the claim or grant: [CreatedByClaimCreation] or
	// [CreatedByGrantCreation].
	AnnotationCreatedBy = GroupName + "/created-by"

	// AnnotationCreatedAt is when the claim was decided, or the grant made, in RFC 3339.
	AnnotationCreatedAt = GroupName + "/created-at"

	// AnnotationResourceName is the name of the object that the claim pays for, or that is the
	// reason for the grant.
	AnnotationResourceName = GroupName + "/resource-name"

	// AnnotationResourceUID is the UID of that object. It tells the object from another that takes
	// its name later.
	AnnotationResourceUID = GroupName + "/resource-uid"

	// AnnotationReservation is the sequence number, in the consumer's ledger, of the reservation
	// that the claim was made from.
	AnnotationReservation = GroupName + "/reservation"

	// AnnotationSuperseded is "true" on a claim that Bursar takes away although its object exists,
	// because the object now costs another consumer, or nothing.
	AnnotationSuperseded = GroupName + "/superseded"

	// AnnotationResize is what a granted claim is to hold in place of what it holds, as JSON in the form of its
	// spec.requests. Whoever created the claim sets it; on claims that a policy made it is refused. Bursar decides
	// it, as a whole or not at all; where nothing becomes more it is always granted. Then it is the claim's
	// spec.requests; until then the claim has the condition [ConditionResizePending]. On a claim that is not granted it
	// means nothing until it is.
	AnnotationResize = GroupName + "/resize"

	// AnnotationRelease is "true" on a claim that gives back its charge as soon as it is deleted, although the object of
	// its spec.resourceRef exists. Whoever may update the claim sets it, at any time; on claims that a policy made it is
	// rejected. Without it, a deleted claim keeps its charge until that object is gone.
	AnnotationRelease = GroupName + "/release"

	// AnnotationExceededAdvice is what a registration says to do where there is not enough of its resource type, in place
	// of what the platform says: one or more sentences of at most [ExceededAdviceMax] bytes, with {{name}} standing for
	// the consumer's name.
	AnnotationExceededAdvice = GroupName + "/exceeded-advice"

	// AnnotationAlertThreshold is from which part of its limit on a consumer is said to be near it, as a whole number of
	// percent from 1 to 100. On a grant it is about the consumer and the resource types of the grant, and the lowest of
	// several counts; on a registration about all consumers of the resource type. Default: what the platform says, or 80.
	AnnotationAlertThreshold = GroupName + "/alert-threshold-percent"

	// AnnotationTemplateKeys lists, as JSON, the keys of the labels and annotations that a grant has
	// from its policy's template, so that those which the template drops are removed and those that
	// others have added stay.
	AnnotationTemplateKeys = GroupName + "/template-keys"

	// AnnotationParentContext names the object that stands for the control plane which a policy made a
	// grant in, as Kind.group/name. Several registrations may reach one API server; each looks after
	// its own grants. A grant in the policy's own control plane has none.
	AnnotationParentContext = GroupName + "/parent-context"
)

// CreatedByClaimCreation is the value of [AnnotationCreatedBy] on claims made by a policy.
const CreatedByClaimCreation = "claim-creation-plugin"

// CreatedByGrantCreation is the value of [AnnotationCreatedBy] on grants made by a policy.
const CreatedByGrantCreation = "grant-creation-controller"

// FinalizerQuotaRelease keeps a deleted claim in place until its charge has been given back.
// Removing it by hand leaves the charge in the ledger until the next audit.
const FinalizerQuotaRelease = GroupName + "/quota-release"

// FinalizerInUse keeps a deleted registration until no grant gives its resource type and no enabled
// ClaimCreationPolicy requests it. An active registration has it. Removing it by hand stops their enforcement.
const FinalizerInUse = GroupName + "/in-use"

// Finalizers of GrantCreationPolicies, which keep a deleted policy until its grants are gone. A
// policy that is disabled loses them once it has no grants. Removing one by hand leaves grants behind.
const (
	// FinalizerGrants is about the grants in the policy's own control plane.
	FinalizerGrants = GroupName + "/grants"

	// FinalizerParentGrants is about the grants in other control planes. A policy has it from when it
	// names a parent context until none of its grants are left in one.
	FinalizerParentGrants = GroupName + "/parent-grants"
)

// AnnotationControlPlanes lists on a GrantCreationPolicy, as JSON, the other control planes that it
// has made grants in. A deleted policy stays until its grants there are gone.
const AnnotationControlPlanes = GroupName + "/control-planes"

// Labels of a Secret in Bursar's system namespace that registers a control plane, by the object
// that stands for it. A value that a label cannot hold may be in an annotation of the same name.
// The Secret holds a kubeconfig under the key kubeconfig or value.
const (
	// LabelControlPlaneGroup is the API group of that object.
	LabelControlPlaneGroup = GroupName + "/control-plane-group"

	// LabelControlPlaneKind is its kind.
	LabelControlPlaneKind = GroupName + "/control-plane-kind"

	// LabelControlPlaneName is its name.
	LabelControlPlaneName = GroupName + "/control-plane-name"
)

// ExceededAdviceMax is how many bytes what to do may have, see [AnnotationExceededAdvice].
const ExceededAdviceMax = 500
