package v1alpha1

// Labels of Bursar on its objects. A claim of a ClaimCreationPolicy has LabelAutoCreated, LabelPolicy and LabelGVK. A
// grant of a GrantCreationPolicy has LabelAutoCreated, LabelPolicy, LabelPolicyUID and LabelSource. Every claim and
// AllowanceBucket has the two labels of the consumer, and every EffectiveResourceGrant the last three. Bursar shortens
// a policy name too long for a label, and ends it in a hash. It omits any other label with an invalid value.
const (
	// LabelAutoCreated is "true" on objects created by a policy. It is absent from all others. Bursar sets it.
	LabelAutoCreated = GroupName + "/auto-created"

	// LabelPolicy is the name of the policy behind the object. Bursar sets it.
	LabelPolicy = GroupName + "/policy"

	// LabelView is "true" on a claim that only shows what its object demands. The object itself counts, so such a claim has
	// no finalizer, and Bursar makes it again when somebody deletes it. Bursar sets it.
	LabelView = GroupName + "/view"

	// LabelPolicyUID is the UID of the policy behind a grant. The policy finds its grants by it, even in a control plane
	// with grants of policies of the same name from other control planes. Bursar sets it.
	LabelPolicyUID = GroupName + "/policy-uid"

	// LabelSource is the source of a grant: the name of its policy, unless the policy's template sets another value. Users
	// may set it freely on other grants. Bursar sets it.
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

// Annotations of Bursar on claims of a ClaimCreationPolicy and, except for the reservation, on grants of a
// GrantCreationPolicy.
const (
	// AnnotationCreatedBy is the creator of the claim or grant: [CreatedByClaimCreation] or [CreatedByGrantCreation].
	// Bursar sets it.
	AnnotationCreatedBy = GroupName + "/created-by"

	// AnnotationCreatedAt is the time of the decision on the claim, or of the creation of the grant, in RFC 3339. Bursar
	// sets it.
	AnnotationCreatedAt = GroupName + "/created-at"

	// AnnotationResourceName is the name of the object of the claim or grant. Bursar sets it.
	AnnotationResourceName = GroupName + "/resource-name"

	// AnnotationResourceUID is the UID of that object. It distinguishes the object from a later one of the same name.
	// Bursar sets it.
	AnnotationResourceUID = GroupName + "/resource-uid"

	// AnnotationSuperseded is "true" on a claim while Bursar removes it although its object exists, because the object has
	// another claim. Bursar sets it.
	AnnotationSuperseded = GroupName + "/superseded"

	// AnnotationResize has the new requests of a granted claim, as JSON in the form of its spec.requests. Bursar rejects
	// it on a policy's claim. It grants the resize as a whole or not at all, and always if no amount grows. Then the
	// requests become the claim's spec.requests. Until then the claim has the condition [ConditionResizePending]. The
	// annotation has no effect before the claim is granted. People set it.
	AnnotationResize = GroupName + "/resize"

	// AnnotationChangedBy is, on a grant, the user of its creation or the last change of its spec. On a directly created
	// claim it is the user of its creation or the last resize. On the grant of a QuotaRequest it has the approving users.
	// Bursar sets it.
	AnnotationChangedBy = GroupName + "/changed-by"

	// AnnotationUndecidedAt is, on a directly created claim, the time at which Bursar gave up a decision that had no effect
	// for long, before it decides again. A late write of the former decision is refused then. Bursar sets it.
	AnnotationUndecidedAt = GroupName + "/undecided-at"

	// AnnotationDeletedBy is, on a grant, the time and the user of a request to delete it. Bursar sets it.
	AnnotationDeletedBy = GroupName + "/deleted-by"

	// AnnotationRelease is "true" on a claim to release its charge at once on its deletion, although the object of its
	// spec.resourceRef exists. Users with the right to update the claim can set it at any time. Bursar rejects it on a
	// policy's claim. Without it, a deleted claim holds its charge while the object exists. People set it.
	AnnotationRelease = GroupName + "/release"

	// AnnotationExceededAdvice is a registration's advice for exceeded quota of its resource type, instead of the
	// platform's: one or more sentences of at most [ExceededAdviceMax] bytes, with {{name}} as the placeholder of the
	// consumer's name. People set it.
	AnnotationExceededAdvice = GroupName + "/exceeded-advice"

	// AnnotationAlertThreshold is the percentage of a limit at which a consumer counts as near it, a whole number from
	// 1 to 100. On a grant it applies to the consumer and the resource types of the grant, and the lowest of several
	// counts; on a registration to all consumers of the resource type. A [QuotaAlert] comes first. Default: the
	// platform's threshold, or 80. People set it.
	AnnotationAlertThreshold = GroupName + "/alert-threshold-percent"

	// AnnotationDisplayName is the annotation of Kubernetes for the name of an object for people. On a registration it
	// names the resource type, with at most [DisplayNameMax] characters, also in denials and events. People set it.
	AnnotationDisplayName = "kubernetes.io/display-name"

	// AnnotationDescription is the annotation of Kubernetes for the description of an object for people. On a registration
	// it describes the resource type, instead of spec.description. People set it.
	AnnotationDescription = "kubernetes.io/description"

	// AnnotationTemplateKeys is the list, as JSON, of the keys of a grant's labels and annotations from its policy's
	// template. Bursar removes a key once the template drops it. It leaves the keys of others. Bursar sets it.
	AnnotationTemplateKeys = GroupName + "/template-keys"

	// AnnotationParentContext names the object of the control plane of a policy's grant, as Kind.group/name. Several
	// registrations may reach one API server; each manages its own grants. A grant in the policy's own control plane has
	// none. Bursar sets it.
	AnnotationParentContext = GroupName + "/parent-context"
)

// AnnotationUnfinished is, on a ConsumerLedger, a summary of the unfinished work of replicas, for readers without its
// spec. It is the sequence of the oldest reservation in flight. Without reservations it is "slices" if the ledger has
// slices, else "journal" if the journal lacks changes, and otherwise "none". Bursar sets it.
const AnnotationUnfinished = GroupName + "/unfinished"

// AnnotationObserved is, on a ConsumerLedger, a digest of the demand that it has observed of each kind. Replicas
// compare it with their inventory, without the ledger's content. It is absent without observed demand. Bursar sets it.
const AnnotationObserved = GroupName + "/observed"

// Annotations of the grant of a QuotaRequest.
const (
	// AnnotationRequest is, on the grant of a QuotaRequest, the name of the request in the same namespace. Bursar sets it.
	AnnotationRequest = GroupName + "/request"

	// AnnotationRequestUID is, on such a grant, the UID of the request. Bursar sets it.
	AnnotationRequestUID = GroupName + "/request-uid"
)

// CreatedByClaimCreation is the value of [AnnotationCreatedBy] on a policy's claims.
const CreatedByClaimCreation = "claim-creation-plugin"

// CreatedByGrantCreation is the value of [AnnotationCreatedBy] on a policy's grants.
const CreatedByGrantCreation = "grant-creation-controller"

// FinalizerQuotaRelease keeps a deleted claim until its object is gone. Removing it by hand returns the charge of the
// claim at once, although its object may exist. Bursar sets it.
const FinalizerQuotaRelease = GroupName + "/quota-release"

// FinalizerInUse keeps a deleted registration until no grant and no enabled ClaimCreationPolicy uses its resource
// type. An active registration has it. Removing it by hand ends the enforcement of these policies. Bursar sets it.
const FinalizerInUse = GroupName + "/in-use"

// Finalizers of GrantCreationPolicies. They keep a deleted policy until its grants are gone. A disabled policy loses
// them once it has no grants. Removing one by hand leaves grants behind.
const (
	// FinalizerGrants is for the grants in the policy's own control plane. Bursar sets it.
	FinalizerGrants = GroupName + "/grants"

	// FinalizerParentGrants is for the grants in other control planes. A policy has it from the time when it names a
	// parent context until it has no grants left in one. Bursar sets it.
	FinalizerParentGrants = GroupName + "/parent-grants"
)

// AnnotationControlPlanes is, on a GrantCreationPolicy, the list, as JSON, of the other control planes with its grants.
// A deleted policy stays until its grants there are gone. Bursar sets it.
const AnnotationControlPlanes = GroupName + "/control-planes"

// Labels of a Secret in Bursar's system namespace. Such a Secret registers a control plane by the object for it.
// Annotations of the same names may have values invalid for labels. The Secret has a kubeconfig under the key
// kubeconfig or value.
const (
	// LabelControlPlaneGroup is, on a Secret with the registration of a control plane, the API group of the object for it.
	// People set it.
	LabelControlPlaneGroup = GroupName + "/control-plane-group"

	// LabelControlPlaneKind is, on such a Secret, the kind of that object. People set it.
	LabelControlPlaneKind = GroupName + "/control-plane-kind"

	// LabelControlPlaneName is, on such a Secret, the name of that object. People set it.
	LabelControlPlaneName = GroupName + "/control-plane-name"
)

// Labels and annotations of bursar import.
const (
	// LabelImportedFrom is, on every object of `bursar import`, the former system, such as resourcequota. People may set
	// it to none on policies of their own: then an import from Milo leaves them out. Bursar sets it.
	LabelImportedFrom = GroupName + "/imported-from"

	// AnnotationImportedLimits begins the annotation of a namespace with limits of its own. The name of the former system
	// follows, such as resourcequota. The value lists the limited resources, with commas between them. Bursar sets it.
	AnnotationImportedLimits = GroupName + "/imported-limits-"

	// AnnotationImportedInPlace is "true" on an object older than its import. A removal of the import keeps the object.
	// Bursar sets it.
	AnnotationImportedInPlace = GroupName + "/imported-in-place"

	// AnnotationImportedMode is, on a policy older than its import, the mode from before the import. A removal restores
	// it. Bursar sets it.
	AnnotationImportedMode = GroupName + "/imported-mode"

	// AnnotationImportedOf is, on an imported grant, the objects of the former system with its amounts. Bursar sets it.
	AnnotationImportedOf = GroupName + "/imported-of"

	// AnnotationImportedSource is, on an imported grant, the limits of these objects, as JSON for the next import. Bursar
	// sets it.
	AnnotationImportedSource = GroupName + "/imported-source"
)

// AnnotationCRDVersion is, on a CustomResourceDefinition of Bursar, its version. A replica never replaces a definition
// of a later version. Bursar sets it.
const AnnotationCRDVersion = GroupName + "/crd-version"

// LabelAggregateToOperator is "true" on ClusterRoles that let Bursar follow the kinds in policies. People set it.
const LabelAggregateToOperator = GroupName + "/aggregate-to-operator"

// LabelProbe is, on ConfigMaps that Bursar creates in dry runs only, a hash of its webhook configuration. By their
// denial it learns that the API server works with that configuration. Bursar sets it.
const LabelProbe = GroupName + "/probe"

// Labels and annotations of the Leases of replicas. They are internal.
const (
	// LabelReplica marks the Lease of a replica, for other replicas only. Bursar sets it.
	LabelReplica = GroupName + "/replica"

	// AnnotationAddress is, on the Lease of a replica, where it answers reviews, as host:port, for other replicas only.
	// Bursar sets it.
	AnnotationAddress = GroupName + "/address"

	// AnnotationLedgerFormat is, on the Lease of a replica, the latest format of ledgers that it reads, for other replicas
	// only. Bursar sets it.
	AnnotationLedgerFormat = GroupName + "/ledger-format"
)

// ExceededAdviceMax bounds the bytes of advice, see [AnnotationExceededAdvice].
const ExceededAdviceMax = 500

// LabelOwner is, on a registration, the service of the resource type, such as networking.example.com. It groups
// resource types. Denials without advice send people to its administrators. People set it.
const LabelOwner = "services.miloapis.com/owner"

// DescriptionMax bounds the characters of a description, see [AnnotationDescription]. Bursar shortens a longer one.
const DescriptionMax = 500

// DisplayNameMax bounds the characters of a display name, see [AnnotationDisplayName].
const DisplayNameMax = 80
