package v1alpha1

// Labels that Bursar sets on what it creates. Every claim made by a ClaimCreationPolicy carries
// the first three, every AllowanceBucket the two that name the consumer, and every
// EffectiveResourceGrant the last three. A label is left out where its value cannot be one.
const (
	// LabelAutoCreated is "true" on objects that a policy created and absent from all others.
	LabelAutoCreated = GroupName + "/auto-created"

	// LabelPolicy names the policy that created the object.
	LabelPolicy = GroupName + "/policy"

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

// Annotations that Bursar sets on claims made by a ClaimCreationPolicy.
const (
	// AnnotationCreatedBy tells what made the claim: always [CreatedByClaimCreation].
	AnnotationCreatedBy = GroupName + "/created-by"

	// AnnotationCreatedAt is when the claim was decided, in RFC 3339.
	AnnotationCreatedAt = GroupName + "/created-at"

	// AnnotationResourceName is the name of the object that the claim pays for.
	AnnotationResourceName = GroupName + "/resource-name"

	// AnnotationResourceUID is the UID of the object that the claim pays for. It tells that
	// object from another that takes its name later.
	AnnotationResourceUID = GroupName + "/resource-uid"

	// AnnotationReservation is the sequence number, in the consumer's ledger, of the reservation
	// that the claim was made from.
	AnnotationReservation = GroupName + "/reservation"

	// AnnotationSuperseded is "true" on a claim that Bursar takes away although its object exists,
	// because the object now costs another consumer, or nothing.
	AnnotationSuperseded = GroupName + "/superseded"
)

// CreatedByClaimCreation is the value of [AnnotationCreatedBy] on claims made by a policy.
const CreatedByClaimCreation = "claim-creation-plugin"

// FinalizerQuotaRelease keeps a deleted claim in place until its charge has been given back.
// Removing it by hand leaves the charge in the ledger until the next audit.
const FinalizerQuotaRelease = GroupName + "/quota-release"
