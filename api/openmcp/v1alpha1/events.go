package v1alpha1

// Reasons of the events on the ResourceQuotas of definitions. They are stable.
const (
	// EventQuotaChanged is a Normal event: an amount has another composition. The message has it.
	EventQuotaChanged = "QuotaChanged"

	// EventQuotaHeldBack is a Warning: a ResourceQuotaAllocation has no room for a whole amount.
	EventQuotaHeldBack = "QuotaHeldBack"

	// EventQuotaExists is a Warning: a ResourceQuota of the definition's name exists, and Bursar did not make it.
	EventQuotaExists = "QuotaExists"
)

// Reasons of the events on namespaces with a definition. They are stable.
const (
	// EventQuotaContested is a Warning: another QuotaServiceConfig holds the namespace.
	EventQuotaContested = "QuotaContested"

	// EventQuotaRemoved is a Normal event: Bursar deleted the ResourceQuota of a former definition.
	EventQuotaRemoved = "QuotaRemoved"

	// EventQuotaIncreaseDeleted is a Normal event: Bursar deleted a QuotaIncrease that no longer has a purpose.
	EventQuotaIncreaseDeleted = "QuotaIncreaseDeleted"
)

// EventQuotaIncreaseWouldBeDeleted is a Normal event on a QuotaIncrease: Bursar would delete it, if its definition did
// not only preview deletions. The message has the reason.
const EventQuotaIncreaseWouldBeDeleted = "QuotaIncreaseWouldBeDeleted"
