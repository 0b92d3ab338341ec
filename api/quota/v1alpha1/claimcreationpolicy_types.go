package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimCreationPolicy protects a kind of object by quota. On the create of such an object Bursar makes a claim from the
// policy's template, and denies the create if it cannot grant the claim. Every policy for a kind applies. A policy is
// effective while its Ready condition is True.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=claimcreationpolicies,scope=Cluster,shortName=ccp,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.apiVersion`
// +kubebuilder:selectablefield:JSONPath=`.spec.enabled`
// +kubebuilder:selectablefield:JSONPath=`.spec.disabled`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.enforcementMode`
// +kubebuilder:printcolumn:name="Applicable",type=string,JSONPath=`.status.conditions[?(@.type=='Applicable')].status`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.evaluation.failed`
// +kubebuilder:printcolumn:name="Adopted",type=string,JSONPath=`.status.adoption.progress`
// +kubebuilder:printcolumn:name="Not Adopted",type=integer,JSONPath=`.status.adoption.failed`
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`,priority=1
// +kubebuilder:printcolumn:name="API Version",type=string,JSONPath=`.spec.trigger.resource.apiVersion`,priority=1
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.target.resourceClaimTemplate.spec.requests[0].resourceType`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`,priority=1
type ClaimCreationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the protected kind, and the cost of its objects.
	Spec ClaimCreationPolicySpec `json:"spec"`

	// status is the state of the policy.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ClaimCreationPolicyStatus `json:"status,omitzero"`
}

// IsEnabled reports whether the policy is enabled: neither enabled nor disabled turns it off. The default is true.
func (p *ClaimCreationPolicy) IsEnabled() bool {
	return (p.Spec.Enabled == nil || *p.Spec.Enabled) && !p.Spec.Disabled
}

// ResourceTypes returns the resource types that an enabled policy requests, by its spec and by the effective
// generation. It returns none for a disabled policy.
func (p *ClaimCreationPolicy) ResourceTypes() []string {
	if !p.IsEnabled() {
		return nil
	}
	types := p.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()
	if former := p.Former(); former != nil {
		types = append(types, former.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// Former returns the policy with the spec and the generation that decide requests while the latest spec cannot. It
// returns nil if the latest generation decides or none does, if the policy is disabled, or if another version of Bursar
// wrote the spec and this one cannot read it.
func (p *ClaimCreationPolicy) Former() *ClaimCreationPolicy {
	effective := p.Status.Effective
	if !p.IsEnabled() || effective == nil || effective.Generation == p.Generation {
		return nil
	}

	spec := effective.DecodeSpec()
	if spec == nil {
		return nil
	}
	former := p.DeepCopy()
	former.Generation, former.Spec = effective.Generation, *spec
	return former
}

// ClaimCreationPolicySpec is the protected kind, and the cost of its objects.
type ClaimCreationPolicySpec struct {
	// enabled turns the policy on (true, the default) or off. While it is off, no object counts by it. After it is on
	// again, all existing objects count at once. Claims of a policy that uses user or requestInfo stay, with their charges,
	// while their objects exist.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// disabled turns the policy off (true), as enabled: false does. Default: false.
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled,omitempty"`

	// enforcementMode determines the handling of an object with a claim beyond a quota. Enforce (the default) denies it.
	// Warn admits it and warns its creator. Audit admits it and records an event on the policy. Bursar charges admitted
	// objects, even beyond the limit, so that the figures are correct in every mode.
	// +optional
	// +kubebuilder:default=Enforce
	EnforcementMode EnforcementMode `json:"enforcementMode,omitempty"`

	// admission determines how Bursar admits a create. Escrow (the default) admits from quota reserved by a replica ahead
	// of demand, where possible, without a write before the answer. Durable writes every reservation before the answer.
	// Both are exact, and both survive a crash. With Durable the ledger names the object from the answer on.
	// +optional
	// +kubebuilder:default=Escrow
	Admission AdmissionMode `json:"admission,omitempty"`

	// claims determines whether each object has a ResourceClaim. With Objects (the default) it has one, to look at. With
	// None there is none, which costs less, and the template's metadata has no effect.
	//
	// Usage is what exists: the demand of every object counts as it is now, whatever changed it. So growth without a
	// reviewed update counts, an object that has finished may give its quota back, and a namespace with a new owner is
	// charged to that owner. Bursar writes the claims in the background, and they follow.
	//
	// A policy that uses user or requestInfo, also in an annotation of its claims, is an exception. What a create demanded
	// is then known from its claim alone, so the claim holds the charge. Such a policy needs Objects.
	// +optional
	// +kubebuilder:default=Objects
	Claims ClaimsMode `json:"claims,omitempty"`

	// target is the claim to make.
	Target ClaimTarget `json:"target"`

	// trigger selects the objects of the policy.
	Trigger ClaimTrigger `json:"trigger"`
}

// EnforcementMode determines the handling of an object with a claim beyond a quota.
// +kubebuilder:validation:Enum=Enforce;Warn;Audit
type EnforcementMode string

const (
	// EnforcementModeEnforce denies the object.
	EnforcementModeEnforce EnforcementMode = "Enforce"

	// EnforcementModeWarn admits the object with a warning.
	EnforcementModeWarn EnforcementMode = "Warn"

	// EnforcementModeAudit admits the object and records it.
	EnforcementModeAudit EnforcementMode = "Audit"
)

// AdmissionMode determines how Bursar admits a create.
// +kubebuilder:validation:Enum=Escrow;Durable
type AdmissionMode string

const (
	// AdmissionModeEscrow admits from quota reserved ahead of demand, where possible.
	AdmissionModeEscrow AdmissionMode = "Escrow"

	// AdmissionModeDurable writes every reservation to the ledger before the answer.
	AdmissionModeDurable AdmissionMode = "Durable"
)

// ClaimsMode determines where the charges of an object are.
// +kubebuilder:validation:Enum=Objects;None
type ClaimsMode string

const (
	// ClaimsModeObjects makes a ResourceClaim for each object.
	ClaimsModeObjects ClaimsMode = "Objects"

	// ClaimsModeNone counts the objects themselves.
	ClaimsModeNone ClaimsMode = "None"
)

// TriggerOperation is an operation on an object.
// +kubebuilder:validation:Enum=CREATE;UPDATE
type TriggerOperation string

const (
	// TriggerOperationCreate is the creation of the object.
	TriggerOperationCreate TriggerOperation = "CREATE"

	// TriggerOperationUpdate is a change of the object, also through its subresources scale and resize.
	TriggerOperationUpdate TriggerOperation = "UPDATE"
)

// ClaimTrigger selects the objects of a ClaimCreationPolicy.
type ClaimTrigger struct {
	// conditions are the conditions of the policy, at most 10. The policy applies to an object if all of them hold. Empty
	// (the default), it applies to every object of the kind. If the evaluation of a condition fails for an object, the
	// mode Enforce denies the object, and the modes Warn and Audit admit it, and it costs nothing by this policy.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Conditions []ConditionExpression `json:"conditions,omitempty"`

	// constraints are further conditions, at most 10 together with those in conditions. All must hold.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Constraints []ConditionExpression `json:"constraints,omitempty"`

	// operations are the operations under the policy: CREATE (the default), or CREATE and UPDATE. With UPDATE Bursar denies
	// a change with a higher cost beyond the quota, also through the subresource scale or, of Pods, resize. It admits a
	// change with a lower cost and frees the difference. The demand of the policy may then depend only on the object and
	// its namespace, not on user and requestInfo.
	// +optional
	// +listType=set
	// +kubebuilder:default={"CREATE"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:XValidation:rule="self.exists(o, o == 'CREATE')",message="operations must have CREATE"
	Operations []TriggerOperation `json:"operations,omitempty"`

	// resource is the kind of object.
	Resource ClaimTriggerResource `json:"resource"`
}

// ClaimTriggerResource names a kind of object.
type ClaimTriggerResource struct {
	// apiVersion is the API group and version, such as apps/v1, or v1 for the core group. The policy also applies to
	// objects created through another version of the group.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?v[0-9]+((alpha|beta)[0-9]*)?$`
	APIVersion string `json:"apiVersion"`

	// kind is the kind of object, such as Project.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
}

// ClaimTarget is the claim of a ClaimCreationPolicy.
type ClaimTarget struct {
	// resourceClaimTemplate is the template of the claim. Its strings may have CEL expressions in double braces, such as
	// {{trigger.metadata.name}}, or be Go templates, such as {{.trigger.metadata.name}}. They see trigger and object (the
	// object), namespaceObject, user and requestInfo.
	ResourceClaimTemplate ResourceClaimTemplate `json:"resourceClaimTemplate"`
}

// ResourceClaimTemplate is the template of a policy's claims.
type ResourceClaimTemplate struct {
	// metadata is the claim's name, namespace, labels and annotations.
	Metadata ObjectTemplateMetadata `json:"metadata"`

	// spec is the consumer and the requests of the claim.
	Spec ResourceClaimTemplateSpec `json:"spec"`
}

// ResourceClaimTemplateSpec is the template of a claim's spec.
type ResourceClaimTemplateSpec struct {
	// consumerRef is the consumer to charge. Its fields may be templates. Absent, it is the parent of the user's control
	// plane: the values of iam.miloapis.com/parent-api-group, parent-type and parent-name in user.extra. Then a create by
	// a user without them is denied, and objects from before the policy get no claim.
	// +optional
	ConsumerRef ConsumerRef `json:"consumerRef,omitzero"`

	// requests is the cost of each object: 1 to 20 entries, each of another resource type.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(other, other.resourceType == r.resourceType))",message="requests must name each resourceType only once"
	Requests []ResourceRequestTemplate `json:"requests"`

	// resourceRef is the object of the claim. Bursar always sets it to the created object, and ignores the value here.
	// Default: absent.
	// +optional
	ResourceRef *UnversionedObjectReference `json:"resourceRef,omitempty"`
}

// ResourceTypes returns the requested resource types, in the order of the requests.
func (s *ResourceClaimTemplateSpec) ResourceTypes() []string {
	types := make([]string, 0, len(s.Requests))
	for _, request := range s.Requests {
		types = append(types, request.ResourceType)
	}
	return types
}

// ResourceRequestTemplate is the template of one request of a claim.
//
// +kubebuilder:validation:XValidation:rule="has(self.amount) != has(self.amountExpression)",message="give either amount or amountExpression"
type ResourceRequestTemplate struct {
	// amount is the cost of each object, in base units of the resource type, at least 1. The schema permits 0, but Bursar
	// rejects a policy with 0. Set either this or amountExpression.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount,omitempty"`

	// amountExpression is a CEL expression of 1 to 1024 characters. It yields the cost of the object. It sees the object
	// as trigger and as object, and namespaceObject, but not user and requestInfo. A number is an amount of base units. A
	// quantity, such as quantity("500m") or a text like "2Gi", counts wholes (cores, bytes). Bursar converts it for these
	// base units: a nano-, micro- or milli- core, CPU, unit, second, byte or bit, and kB, MB, GB, TB, PB, KiB, MiB, GiB,
	// TiB or PiB. It rounds the result up. With 0 the object costs nothing of this type. A negative amount denies the
	// object. Set either this or amount.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	AmountExpression string `json:"amountExpression,omitempty"`

	// dimensions classify the amount, such as by location: at most 16 entries with keys of at most 317 characters. The
	// registration of the resource type must list the keys. The values may be templates. Empty (the default), the amount
	// has no dimensions.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317)",message="dimensions must have keys of at most 317 characters"
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// resourceType is the requested resource type: the spec.resourceType of an active registration, at most 253
	// characters.
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}

// ClaimCreationPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type ClaimCreationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClaimCreationPolicy `json:"items"`
}
