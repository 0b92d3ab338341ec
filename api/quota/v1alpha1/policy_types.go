package v1alpha1

// Reasons for the Ready condition of policies, besides [ReasonValidationFailed].
const (
	// ReasonPolicyReady goes with Ready=True: the policy was checked and is applied.
	ReasonPolicyReady = "PolicyReady"

	// ReasonPolicyDisabled goes with Ready=False: spec.enabled is false.
	ReasonPolicyDisabled = "PolicyDisabled"
)

// Reasons for the Applicable condition of policies.
const (
	// ReasonPolicyApplicable goes with Applicable=True: no request failed lately because of the policy.
	ReasonPolicyApplicable = "PolicyApplicable"

	// ReasonEvaluationFailed goes with Applicable=False: a condition, an amount or a template of the policy failed for the object of
	// a request. The message says which, and how many requests were denied.
	ReasonEvaluationFailed = "EvaluationFailed"

	// ReasonClaimNotAllowed goes with Applicable=False: the registrations do not allow the claims of the policy, such as those of a
	// kind that claimingResources does not list.
	ReasonClaimNotAllowed = "ClaimNotAllowed"
)

// ConditionExpression is one condition that an object has to meet for a policy to act on it.
type ConditionExpression struct {
	// expression is a CEL expression that yields a boolean, of 1 to 1024 characters. It sees the
	// object as trigger and as object; in a ClaimCreationPolicy also namespaceObject, user (name, uid,
	// groups, extra) and requestInfo. An example: trigger.spec.tier == "premium".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Expression string `json:"expression"`

	// message tells readers of the policy what the condition is for, in at most 256 characters.
	// It has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// ObjectTemplateMetadata is the metadata of the objects that a policy creates. Where a field may
// hold a Go template, the template sees .trigger and .object (the object that the policy acts on),
// .user and .requestInfo; in a ClaimCreationPolicy also .namespaceObject. A GrantCreationPolicy acts
// on no request, so that there all fields of .user and .requestInfo are empty.
type ObjectTemplateMetadata struct {
	// annotations are set on the created object, in addition to Bursar's own. Their values may
	// hold Go templates, their keys may not.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// generateName is the beginning of a name that is completed to a unique one; it applies when
	// name is empty. It may hold a Go template.
	// +optional
	GenerateName string `json:"generateName,omitempty"`

	// labels are set on the created object as they are, in addition to Bursar's own. They hold no
	// templates.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// name is the created object's name. It may hold a Go template, such as
	// {{.trigger.metadata.name}}-quota. Empty (the default) means that the name is made from
	// generateName or, where that is empty too, from the policy's name.
	// +optional
	Name string `json:"name,omitempty"`

	// namespace is where the object is created. It may hold a Go template. Empty (the default)
	// means the namespace of the object that the policy acts on or, where that is cluster-scoped,
	// Bursar's system namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
