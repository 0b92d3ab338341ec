package v1alpha1

// Types of the conditions in the status of this group's kinds.
const (
	// ConditionActive says whether a registration can be used, or a grant counts.
	ConditionActive = "Active"

	// ConditionGranted says whether a claim has been given everything that it asks for.
	ConditionGranted = "Granted"

	// ConditionResizePending is True on a granted claim that does not hold yet what [AnnotationResize] says, for one of
	// the reasons for which a claim is not granted. Others do not have it.
	ConditionResizePending = "ResizePending"

	// ConditionAdopted says whether every object that was there before a ClaimCreationPolicy has been looked at.
	ConditionAdopted = "Adopted"

	// ConditionInUse is True on a registration that is being deleted while grants or enabled policies use it. The
	// message names them. Others do not have it.
	ConditionInUse = "InUse"

	// ConditionReady says whether a policy has been checked and is applied.
	ConditionReady = "Ready"

	// ConditionApplicable says whether a policy that is Ready can be applied to the objects of requests.
	ConditionApplicable = "Applicable"

	// ConditionParentContextReady says whether the control plane that a GrantCreationPolicy names
	// as parent can be reached.
	ConditionParentContextReady = "ParentContextReady"
)

// ReasonValidationFailed is the reason for a condition that is False because the spec cannot be
// used as it is. The condition's message says why. Every kind with conditions uses it.
const ReasonValidationFailed = "ValidationFailed"
