package v1alpha1

// Reasons of the events on EffectiveResourceGrants, in the namespace of the consumer's quota. They are stable.
const (
	// EventQuotaDenied is a Warning: Bursar denied a create or an update. One event counts the denials of a consumer and a
	// resource type, and has the message of the latest.
	EventQuotaDenied = "QuotaDenied"

	// EventQuotaNearLimit is a Warning: the consumer uses its threshold of a limit, or more.
	EventQuotaNearLimit = "QuotaNearLimit"

	// EventQuotaReached is a Warning: the consumer uses exactly its limit, and gets nothing more.
	EventQuotaReached = "QuotaReached"

	// EventQuotaExceeded is a Warning: the consumer uses more than its limit. On a ResourceClaim it means that the claim
	// waits, because at least one of its requests does not fit.
	EventQuotaExceeded = "QuotaExceeded"

	// EventQuotaBelowThreshold is a Normal event: the consumer uses less than its threshold again.
	EventQuotaBelowThreshold = "QuotaBelowThreshold"
)

// Reasons of the events on ResourceGrants. They are stable.
const (
	// EventGrantExpiring is a Warning: the end of the grant, or of one of its allowances, is near.
	EventGrantExpiring = "GrantExpiring"

	// EventGrantExpired is a Warning: an allowance of the grant has ended.
	EventGrantExpired = "GrantExpired"

	// EventNamespaceMissing is a Warning: the namespace for the view of the consumer's quota does not exist.
	EventNamespaceMissing = "NamespaceMissing"
)

// Reasons of the events on QuotaRequests: the reason of the condition Approved, after the name of the kind. They are
// stable.
const (
	// EventQuotaRequestPending is a Normal event: the request waits for a decision.
	EventQuotaRequestPending = EventQuotaRequest + ReasonPending

	// EventQuotaRequestApproved is a Normal event: the approval covers everything, and the grant counts.
	EventQuotaRequestApproved = EventQuotaRequest + ReasonApproved

	// EventQuotaRequestPartiallyApproved is a Normal event: the approval covers a part, and the grant counts.
	EventQuotaRequestPartiallyApproved = EventQuotaRequest + ReasonPartiallyApproved

	// EventQuotaRequestDenied is a Warning: an approver, a policy or a cap of a registration denied the request.
	EventQuotaRequestDenied = EventQuotaRequest + ReasonDenied

	// EventQuotaRequestWithdrawn is a Normal event: a user withdrew the request before a decision.
	EventQuotaRequestWithdrawn = EventQuotaRequest + ReasonWithdrawn

	// EventQuotaRequestExpired is a Warning: nobody decided on the request in time.
	EventQuotaRequestExpired = EventQuotaRequest + ReasonExpired
)

// EventQuotaRequest begins the reason of each event on a QuotaRequest.
const EventQuotaRequest = "QuotaRequest"

// Reasons of the events on ClaimCreationPolicies. They are stable.
const (
	// EventEvaluationFailed is a Warning: the policy fails for an object. GrantCreationPolicies have it, too.
	EventEvaluationFailed = "EvaluationFailed"

	// EventNotEnforced is a Warning: in the mode Audit, the policy admitted an object beyond a limit, or one
	// that it fails on.
	EventNotEnforced = "NotEnforced"

	// EventRecounted is a Normal event: all existing objects count as the present policy says. The message has how many
	// count by it.
	EventRecounted = "Recounted"
)

// Reasons of the events on GrantCreationPolicies, besides [EventEvaluationFailed]. They are stable.
const (
	// EventGrantCreated is a Normal event: the policy created a grant.
	EventGrantCreated = "GrantCreated"

	// EventGrantUpdated is a Normal event: the policy changed a grant to its template again.
	EventGrantUpdated = "GrantUpdated"

	// EventGrantDeleted is a Normal event: the policy deleted a grant, because it no longer applies to the object.
	EventGrantDeleted = "GrantDeleted"

	// EventGrantFailed is a Warning: the write of a grant failed. The message has the error.
	EventGrantFailed = "GrantFailed"

	// EventParentContextNotReady is a Warning: Bursar does not reach the control plane of some matching objects, so they
	// get no grant there. The message has the next step.
	EventParentContextNotReady = "ParentContextNotReady"

	// EventGrantsNotCleanedUp is a Warning: a deleted policy waits for a control plane to delete its grants there.
	EventGrantsNotCleanedUp = "GrantsNotCleanedUp"

	// EventGrantsLeftBehind is a Warning: grants of the policy may stay in a control plane without the Secret of its
	// registration.
	EventGrantsLeftBehind = "GrantsLeftBehind"
)

// Reasons of the events on ResourceQuotaAllocations. They are stable.
const (
	// EventCapExceeded is a Warning: the ResourceQuotas of the member namespaces together exceed the cap. On a
	// ResourceRegistration it means that the grants of all consumers give more than its maxTotal.
	EventCapExceeded = "CapExceeded"

	// EventWithinCap is a Normal event: the ResourceQuotas are within the cap again.
	EventWithinCap = "WithinCap"

	// EventDefaultRefused is a Warning: a namespace could not get the default ResourceQuota. The message has the reason.
	EventDefaultRefused = "DefaultRefused"
)

// Reasons of the events on protected objects. They are stable.
const (
	// EventBrokenGlass is a Warning: a member of [BreakGlassGroup] created or changed the object without enforcement.
	EventBrokenGlass = "BrokenGlass"

	// EventClaimsRefused is a Warning: the namespace of the object denies ResourceClaims, so its claims are in the system
	// namespace.
	EventClaimsRefused = "ClaimsRefused"
)
