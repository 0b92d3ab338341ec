package v1alpha1

// Reasons for the Ready condition of policies, besides [ReasonValidationFailed].
const (
	// ReasonPolicyReady goes with Ready=True: the policy is valid and effective.
	ReasonPolicyReady = "PolicyReady"

	// ReasonPolicyDisabled goes with Ready=False: spec.enabled is false, or spec.disabled is true.
	ReasonPolicyDisabled = "PolicyDisabled"
)

// Reasons for the Applicable condition of policies.
const (
	// ReasonPolicyApplicable goes with Applicable=True: no request failed lately because of the policy.
	ReasonPolicyApplicable = "PolicyApplicable"

	// ReasonEvaluationFailed goes with Applicable=False: a condition, an amount or a template of the policy failed for
	// the object of a request. The message names it, with the number of denied requests.
	ReasonEvaluationFailed = "EvaluationFailed"

	// ReasonClaimNotAllowed goes with Applicable=False: the registrations do not allow the claims of the policy, such
	// as those of a kind that claimingResources does not list.
	ReasonClaimNotAllowed = "ClaimNotAllowed"
)

// ConditionExpression is one condition on the objects of a policy.
type ConditionExpression struct {
	// expression is a CEL expression of 1 to 1024 characters. It yields a boolean. It sees the object as trigger and as
	// object; in a ClaimCreationPolicy also namespaceObject, user (name, uid, groups, extra) and requestInfo. An example:
	// trigger.spec.tier == "premium".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Expression string `json:"expression"`

	// message describes the condition for readers of the policy, in at most 256 characters. It has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// ObjectTemplateMetadata is the metadata of a policy's claims or grants. Its strings may have CEL expressions in double
// braces, such as {{trigger.metadata.name}}, or be Go templates, such as {{.trigger.metadata.name}}. Both see trigger
// and object (the policy's object), and in a ClaimCreationPolicy namespaceObject, user and requestInfo. In the Go
// templates of a GrantCreationPolicy, all fields of .user and .requestInfo are empty.
type ObjectTemplateMetadata struct {
	// annotations are annotations for the created object, in addition to Bursar's own. Their values may be templates,
	// their keys may not.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// generateName is the prefix of a generated unique name; it applies if name is empty. It may be a template.
	// +optional
	GenerateName string `json:"generateName,omitempty"`

	// labels are labels for the created object, in addition to Bursar's own. They cannot be templates.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// name is the created object's name. It may be a template, such as {{trigger.metadata.name}}-quota. Empty (the
	// default), Bursar generates the name from generateName or, if that is empty too, from the policy's name.
	// +optional
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the created object. It may be a template. Empty (the default), it is the namespace of
	// the policy's object or, for a cluster-scoped object, Bursar's system namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
