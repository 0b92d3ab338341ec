package v1alpha1

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	if effective := p.Status.Effective; effective != nil && effective.Generation != p.Generation {
		var spec ClaimCreationPolicySpec
		if json.Unmarshal(effective.Spec.Raw, &spec) == nil {
			types = append(types, spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()...)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// ClaimCreationPolicySpec is the protected kind, and the cost of its objects.
type ClaimCreationPolicySpec struct {
	// enabled turns the policy on (true, the default) or off. While it is off, new objects get no claim. After it is on
	// again, they get one in the background, like all objects from before the policy. The policy's claims stay, with their
	// charges, while their objects exist.
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
	// mode Enforce denies the object, and the modes Warn and Audit admit it without a claim.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Conditions []ConditionExpression `json:"conditions,omitempty"`

	// constraints are further conditions, at most 10 together with those in conditions. All must hold.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Constraints []ConditionExpression `json:"constraints,omitempty"`

	// operations are the operations under the policy: CREATE (the default), or CREATE and UPDATE. With UPDATE the claim
	// follows the object. Bursar denies a change with a higher cost beyond the quota, also through the subresource scale
	// or, of Pods, resize. It admits a change with a lower cost and frees the difference. The demand of the policy may
	// then depend only on the object and its namespace, not on user and requestInfo.
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

// ClaimCreationPolicyStatus is the state of a policy.
type ClaimCreationPolicyStatus struct {
	// adoption is the progress of the claims for objects from before the policy. It is absent until the policy is
	// effective.
	// +optional
	Adoption *AdoptionStatus `json:"adoption,omitempty"`

	// conditions has the conditions Ready, Applicable and Adopted. Ready is True with reason PolicyReady while the policy
	// is effective, and False with reason ValidationFailed (the message has the errors) or PolicyDisabled while it is not.
	// Applicable is present while Ready is True. It is False with reason EvaluationFailed after the policy failed for the
	// object of a request. It is False with reason ClaimNotAllowed while a registration does not list the kind in
	// claimingResources. The mode Enforce denies such requests. Applicable turns True with reason PolicyApplicable after a
	// later success and 5 minutes without a failed request. Adopted is True with reason AdoptionComplete once Bursar has
	// processed every object from before the policy, and False with reason AdoptionRunning until then. An enabled policy
	// without effect also has Reconciling or, if its spec is invalid, Stalled. A failure for single objects sets neither.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// effective is the generation that decides requests, with its spec. It is older than metadata.generation while the
	// latest spec cannot be effective: Ready is False then, its message has the reason, and the former generation goes on.
	// It is absent until a generation is Ready, and while the policy is disabled.
	// +optional
	Effective *EffectivePolicy `json:"effective,omitempty"`

	// evaluation counts the requests with a failure of the policy for their object. It is absent without failures, and
	// restarts after a change of the spec.
	// +optional
	Evaluation *EvaluationStatus `json:"evaluation,omitempty"`

	// observedGeneration is the metadata.generation behind the conditions.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// EffectivePolicy is the generation of a policy that decides requests.
type EffectivePolicy struct {
	// generation is the metadata.generation of the spec.
	Generation int64 `json:"generation"`

	// spec is the spec of the generation.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	Spec runtime.RawExtension `json:"spec"`

	// suspended is true while Bursar may not read the objects of the kind. Then creates pass without a claim, because
	// nobody would return their quota. Default: false.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
}

// EvaluationStatus counts the requests with a failure of a policy for their object. Each replica writes it at most once
// in 10 seconds.
type EvaluationStatus struct {
	// denied is the number of requests denied because of the failure.
	// +kubebuilder:validation:Minimum=0
	Denied int64 `json:"denied"`

	// failed is the number of all requests with such a failure. All but the denied ones passed, because of the
	// enforcementMode, or because the claim already covered an update.
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`

	// lastFailure is the error of the policy for the last of these objects, with the name of the object, in at most 1024
	// characters.
	// +kubebuilder:validation:MaxLength=1024
	LastFailure string `json:"lastFailure"`

	// lastFailureReason is ClaimNotAllowed if a registration does not permit the claim, and otherwise EvaluationFailed.
	LastFailureReason string `json:"lastFailureReason"`

	// lastFailureTime is the time of the last of these requests.
	LastFailureTime metav1.Time `json:"lastFailureTime"`

	// lastSuccessTime is the time of the first successful application of the policy after the last failure. It is
	// absent until then.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`

	// observedGeneration is the metadata.generation of the failing policy.
	ObservedGeneration int64 `json:"observedGeneration"`
}

// Reasons for the condition Adopted.
const (
	// ReasonAdoptionComplete goes with Adopted=True: Bursar has processed every existing object.
	ReasonAdoptionComplete = "AdoptionComplete"

	// ReasonAdoptionRunning goes with Adopted=False: Bursar is still processing objects.
	ReasonAdoptionRunning = "AdoptionRunning"
)

// AdoptionState is the state of a policy's adoption.
// +kubebuilder:validation:Enum=Running;Complete
type AdoptionState string

const (
	// AdoptionRunning means that Bursar is still processing objects.
	AdoptionRunning AdoptionState = "Running"

	// AdoptionComplete means that Bursar has processed every existing object.
	AdoptionComplete AdoptionState = "Complete"
)

// AdoptionStatus is the progress of the claims for existing objects. Bursar charges existing objects even beyond a
// limit.
type AdoptionStatus struct {
	// adopted is the number of objects with a new claim.
	// +kubebuilder:validation:Minimum=0
	Adopted int64 `json:"adopted"`

	// completionTime is the time at which Bursar had processed every object.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// failed is the number of objects with a failure of the policy. They have no claim. A change of the policy's spec
	// begins another adoption.
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`

	// message names one of the failed objects, with the reason.
	// +optional
	Message string `json:"message,omitempty"`

	// observedGeneration is the metadata.generation of the policy used for adoption.
	ObservedGeneration int64 `json:"observedGeneration"`

	// processed is the number of processed objects.
	// +kubebuilder:validation:Minimum=0
	Processed int64 `json:"processed"`

	// progress is the number of processed objects without failure, of total, such as 500/1518, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=50
	Progress string `json:"progress,omitempty"`

	// startTime is the time at which Bursar processed the first object.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// total is the number of objects of the kind, as far as Bursar knows it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int64 `json:"total,omitempty"`

	// state is Running until Bursar has processed every object, then Complete.
	State AdoptionState `json:"state"`

	// uncheckedSince is the time since which new objects may lack a claim: the policy is not ready, or was not, or objects
	// came without a review. Bursar processes them as soon as possible, also after a restart. It is absent without such
	// objects.
	// +optional
	UncheckedSince *metav1.Time `json:"uncheckedSince,omitempty"`
}

// ClaimCreationPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type ClaimCreationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClaimCreationPolicy `json:"items"`
}
