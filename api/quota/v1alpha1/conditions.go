package v1alpha1

// Types of the conditions in the status of this group's kinds.
const (
	// ConditionActive indicates whether grants and claims may use a registration, or whether a grant counts.
	ConditionActive = "Active"

	// ConditionGranted indicates whether Bursar has granted all requests of a claim.
	ConditionGranted = "Granted"

	// ConditionResizePending is True on a granted claim while the resize of [AnnotationResize] is pending. Its reasons are
	// those of the condition Granted. Otherwise the condition is absent.
	ConditionResizePending = "ResizePending"

	// ConditionAdopted indicates whether Bursar has processed every object from before a ClaimCreationPolicy.
	ConditionAdopted = "Adopted"

	// ConditionInUse is True on a registration under deletion while grants or enabled policies use it. The message names
	// them. Otherwise the condition is absent.
	ConditionInUse = "InUse"

	// ConditionReady indicates whether Bursar has validated a policy, or an allocation, and applies it.
	ConditionReady = "Ready"

	// ConditionApplicable indicates whether a Ready policy works for the objects of requests.
	ConditionApplicable = "Applicable"

	// ConditionParentContextReady indicates whether Bursar reaches the control planes in the parentContext of a
	// GrantCreationPolicy.
	ConditionParentContextReady = "ParentContextReady"

	// ConditionReconciling is True while an object does not have its effect yet, and gets it without another change of it:
	// once another object, free quota or a time has come. Otherwise the condition is absent. It repeats the reason and the
	// message of the condition that explains the state, for GitOps tools.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True while an object has no effect until somebody changes it, or the object in conflict with it.
	// Otherwise the condition is absent. It repeats the reason and the message of the condition that explains the state,
	// for GitOps tools.
	ConditionStalled = "Stalled"
)

// ReasonValidationFailed goes with Active, Granted or Ready=False: the spec is invalid. The message has the errors.
const ReasonValidationFailed = "ValidationFailed"
