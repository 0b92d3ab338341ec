package v1alpha1

// Types of the conditions in the status of this group's kinds.
const (
	// ConditionActive indicates whether a registration can be used, or a grant counts.
	ConditionActive = "Active"

	// ConditionGranted indicates whether all requests of a claim are granted.
	ConditionGranted = "Granted"

	// ConditionResizePending is True on a granted claim while the resize of [AnnotationResize] is pending, for one of
	// the reasons why a claim is not granted. Otherwise the condition is absent.
	ConditionResizePending = "ResizePending"

	// ConditionAdopted indicates whether every object from before a ClaimCreationPolicy has been processed.
	ConditionAdopted = "Adopted"

	// ConditionInUse is True on a registration that is being deleted while grants or enabled policies use it. The
	// message names them. Otherwise the condition is absent.
	ConditionInUse = "InUse"

	// ConditionReady indicates whether Bursar has validated a policy, or an allocation, and applies it.
	ConditionReady = "Ready"

	// ConditionApplicable indicates whether a policy that is Ready can be applied to the objects of requests.
	ConditionApplicable = "Applicable"

	// ConditionParentContextReady indicates whether the control plane in the parentContext of a GrantCreationPolicy can
	// be reached.
	ConditionParentContextReady = "ParentContextReady"
)

// ReasonValidationFailed goes with Active, Granted or Ready=False: the spec is invalid. The message has the errors.
const ReasonValidationFailed = "ValidationFailed"
