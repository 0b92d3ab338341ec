package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClaimCreationPolicy puts a kind of object under quota: while such an object is being created, a
// claim is made from the policy's template, and the object is refused when the claim cannot be
// granted. Every policy for a kind applies. A policy is in force while its Ready condition is True.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=claimcreationpolicies,scope=Cluster,shortName=ccp,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.apiVersion`
// +kubebuilder:selectablefield:JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.enforcementMode`
// +kubebuilder:printcolumn:name="Applicable",type=string,JSONPath=`.status.conditions[?(@.type=='Applicable')].status`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.evaluation.failed`
// +kubebuilder:printcolumn:name="Adopted",type=string,JSONPath=`.status.adoption.progress`
// +kubebuilder:printcolumn:name="Not Adopted",type=integer,JSONPath=`.status.adoption.failed`,priority=1
// +kubebuilder:printcolumn:name="API Version",type=string,JSONPath=`.spec.trigger.resource.apiVersion`,priority=1
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.target.resourceClaimTemplate.spec.requests[0].resourceType`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`,priority=1
type ClaimCreationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is put under quota, and what it costs.
	Spec ClaimCreationPolicySpec `json:"spec"`

	// status is what Bursar found out about the policy.
	// +optional
	Status ClaimCreationPolicyStatus `json:"status,omitzero"`
}

// IsEnabled tells whether the policy is meant to apply. A policy that does not say is enabled.
func (p *ClaimCreationPolicy) IsEnabled() bool {
	return p.Spec.Enabled == nil || *p.Spec.Enabled
}

// ClaimCreationPolicySpec says what is put under quota, and what it costs.
type ClaimCreationPolicySpec struct {
	// enabled turns the policy on (true, the default) or off. While it is off, objects are created
	// without a claim. When it is turned on again, they get one in the background, like all objects
	// that are there before the policy. Claims that the policy has made stay, with what they hold,
	// for as long as their objects exist.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// enforcementMode says what becomes of an object whose claim exceeds a quota. Enforce (the
	// default) refuses it. Warn lets it pass and warns whoever creates it. Audit lets it pass and
	// records an event on the policy. What passes is charged, also beyond the limit, so that the
	// numbers are true whatever the mode.
	// +optional
	// +kubebuilder:default=Enforce
	EnforcementMode EnforcementMode `json:"enforcementMode,omitempty"`

	// target is the claim to make.
	Target ClaimTarget `json:"target"`

	// trigger is which objects the policy applies to.
	Trigger ClaimTrigger `json:"trigger"`
}

// EnforcementMode says what becomes of an object whose claim exceeds a quota.
// +kubebuilder:validation:Enum=Enforce;Warn;Audit
type EnforcementMode string

const (
	// EnforcementModeEnforce refuses the object.
	EnforcementModeEnforce EnforcementMode = "Enforce"

	// EnforcementModeWarn lets the object pass with a warning.
	EnforcementModeWarn EnforcementMode = "Warn"

	// EnforcementModeAudit lets the object pass and records it.
	EnforcementModeAudit EnforcementMode = "Audit"
)

// TriggerOperation is something that is done to an object.
// +kubebuilder:validation:Enum=CREATE;UPDATE
type TriggerOperation string

const (
	// TriggerOperationCreate is the creation of the object.
	TriggerOperationCreate TriggerOperation = "CREATE"

	// TriggerOperationUpdate is a change of the object, also through its subresources scale and
	// resize.
	TriggerOperationUpdate TriggerOperation = "UPDATE"
)

// ClaimTrigger says which objects a ClaimCreationPolicy applies to.
type ClaimTrigger struct {
	// conditions have to hold all for the policy to apply, at most 10. Empty (the default) means
	// that it applies to every object of the kind. An object for which a condition cannot be evaluated
	// is refused in the mode Enforce, and passes without a claim in the modes Warn and Audit.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Conditions []ConditionExpression `json:"conditions,omitempty"`

	// operations are when the policy applies: CREATE (the default), or CREATE and UPDATE. With UPDATE
	// the claim follows the object: a change, also through the subresource scale or, of Pods, resize,
	// that makes the object cost more is refused when that exceeds the quota; one that makes it cost
	// less is allowed and frees the difference. What the policy asks of an object may then depend on
	// the object and its namespace alone, not on user and requestInfo.
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
	// apiVersion is the API group and version, such as apps/v1, or v1 for the core group. Objects
	// that are created through another version of the group fall under the policy too.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?v[0-9]+((alpha|beta)[0-9]*)?$`
	APIVersion string `json:"apiVersion"`

	// kind is the kind of object, such as Project.
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
}

// ClaimTarget says which claim a ClaimCreationPolicy makes.
type ClaimTarget struct {
	// resourceClaimTemplate is what the claim looks like. Its strings may hold Go templates, which
	// see .trigger and .object (the object), .namespaceObject, .user and .requestInfo.
	ResourceClaimTemplate ResourceClaimTemplate `json:"resourceClaimTemplate"`
}

// ResourceClaimTemplate is the pattern for the claims of a policy.
type ResourceClaimTemplate struct {
	// metadata is the claim's name, namespace, labels and annotations.
	Metadata ObjectTemplateMetadata `json:"metadata"`

	// spec is what the claim asks for, and of whom.
	Spec ResourceClaimTemplateSpec `json:"spec"`
}

// ResourceClaimTemplateSpec is the pattern for a claim's spec.
type ResourceClaimTemplateSpec struct {
	// consumerRef is the consumer whose quota is charged. Its fields may hold Go templates.
	ConsumerRef ConsumerRef `json:"consumerRef"`

	// requests is what each object costs: 1 to 20 entries, each of another resource type.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(other, other.resourceType == r.resourceType))",message="requests must name each resourceType only once"
	Requests []ResourceRequestTemplate `json:"requests"`

	// resourceRef is the object that the claim pays for. Absent (the default) or not, Bursar fills
	// in the object that is being created.
	// +optional
	ResourceRef *UnversionedObjectReference `json:"resourceRef,omitempty"`
}

// ResourceTypes returns those that are requested, in the order of the requests.
func (s *ResourceClaimTemplateSpec) ResourceTypes() []string {
	types := make([]string, 0, len(s.Requests))
	for _, request := range s.Requests {
		types = append(types, request.ResourceType)
	}
	return types
}

// ResourceRequestTemplate is the pattern for one request of a claim.
//
// +kubebuilder:validation:XValidation:rule="has(self.amount) != has(self.amountExpression)",message="give either amount or amountExpression"
type ResourceRequestTemplate struct {
	// amount is how much each object costs, in base units of the resource type, at least 1: the
	// schema admits 0, and a policy that asks for 0 is refused all the same. Either this or
	// amountExpression is given.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount,omitempty"`

	// amountExpression is a CEL expression of 1 to 1024 characters that yields how much the object
	// costs. It sees the object as trigger and as object, and namespaceObject, but not user and
	// requestInfo. A number is an amount of base units. A quantity, such as quantity("500m") or a text
	// like "2Gi", counts whole (cores, bytes) and is converted where the base unit is a nano-, micro- or
	// milli- core, CPU, unit, second, byte or bit, or one of kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB or
	// PiB; a part of a base unit counts as one. With 0 the object costs nothing of this type, and what
	// is negative refuses it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	AmountExpression string `json:"amountExpression,omitempty"`

	// dimensions tell what the amount is for, such as a location: at most 16 entries with keys of
	// at most 317 characters, which the registration of the resource type has to allow. The values
	// may hold Go templates.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317)",message="dimensions must have keys of at most 317 characters"
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// resourceType is what is asked for: the spec.resourceType of an active registration, at most
	// 253 characters.
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}

// ClaimCreationPolicyStatus is what Bursar found out about a policy.
type ClaimCreationPolicyStatus struct {
	// adoption is how far the objects that were there before the policy have got their claims. It is
	// absent until the policy is in force.
	// +optional
	Adoption *AdoptionStatus `json:"adoption,omitempty"`

	// conditions holds the conditions Ready, Applicable and Adopted. Ready is True with reason PolicyReady while the
	// policy is in force, and False with reason ValidationFailed (the message says what is wrong) or
	// PolicyDisabled while it is not. Applicable is there while Ready is True. It is False with reason
	// EvaluationFailed once the policy could not be applied to the object of a request, and with reason
	// ClaimNotAllowed while a registration does not list the kind in claimingResources; in the mode Enforce
	// such requests are denied. It turns True with reason PolicyApplicable once the policy could be applied
	// again and no request failed for 5 minutes. Adopted is True with reason AdoptionComplete once every object
	// that was there before the policy has been looked at, and False with reason AdoptionRunning until then.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// evaluation counts the requests whose objects the policy could not be applied to. It is absent until
	// there is one, and starts again when the spec changes.
	// +optional
	Evaluation *EvaluationStatus `json:"evaluation,omitempty"`

	// observedGeneration is the metadata.generation that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// EvaluationStatus counts the requests whose objects a policy could not be applied to. Each replica writes it at most once in
// 10 seconds.
type EvaluationStatus struct {
	// denied is the number of requests that were denied because the policy could not be applied to their objects.
	// +kubebuilder:validation:Minimum=0
	Denied int64 `json:"denied"`

	// failed is the number of requests whose objects the policy could not be applied to. Those that were not
	// denied passed, because of the enforcementMode, or because an update needed no more than the claim holds.
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`

	// lastFailure says why the policy could not be applied to the last of these objects, and names the object.
	// +kubebuilder:validation:MaxLength=1024
	LastFailure string `json:"lastFailure"`

	// lastFailureReason is EvaluationFailed, or ClaimNotAllowed where a registration does not allow the claim.
	LastFailureReason string `json:"lastFailureReason"`

	// lastFailureTime is when the last of these requests was made.
	LastFailureTime metav1.Time `json:"lastFailureTime"`

	// lastSuccessTime is when the policy could be applied to the object of a request after the last failure. It is
	// absent while it could not.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`

	// observedGeneration is the metadata.generation of the policy that failed.
	ObservedGeneration int64 `json:"observedGeneration"`
}

// Reasons for the condition Adopted.
const (
	// ReasonAdoptionComplete goes with Adopted=True: every object that existed has been looked at.
	ReasonAdoptionComplete = "AdoptionComplete"

	// ReasonAdoptionRunning goes with Adopted=False: objects are still being looked at.
	ReasonAdoptionRunning = "AdoptionRunning"
)

// AdoptionState says whether a policy's adoption is done.
// +kubebuilder:validation:Enum=Running;Complete
type AdoptionState string

const (
	// AdoptionRunning means that objects are still being looked at.
	AdoptionRunning AdoptionState = "Running"

	// AdoptionComplete means that every object that existed has been looked at.
	AdoptionComplete AdoptionState = "Complete"
)

// AdoptionStatus is how far existing objects have got the claims that a policy asks of them. They
// are charged also where that exceeds a limit.
type AdoptionStatus struct {
	// adopted is the number of objects that got a claim.
	// +kubebuilder:validation:Minimum=0
	Adopted int64 `json:"adopted"`

	// completionTime is when every object had been looked at.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// failed is the number of objects that the policy could not be applied to. They have no claim.
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`

	// message says why objects could not be adopted, by an example.
	// +optional
	Message string `json:"message,omitempty"`

	// observedGeneration is the metadata.generation of the policy that is being adopted for.
	ObservedGeneration int64 `json:"observedGeneration"`

	// processed is the number of objects looked at so far.
	// +kubebuilder:validation:Minimum=0
	Processed int64 `json:"processed"`

	// progress is how many of total were looked at and did not fail, such as 500/1518, for people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=50
	Progress string `json:"progress,omitempty"`

	// startTime is when the first object was looked at.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// total is the number of objects of the kind, as far as it is known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int64 `json:"total,omitempty"`

	// state is Running until every object has been looked at, then Complete.
	State AdoptionState `json:"state"`

	// uncheckedSince is set while objects that were created since then may lack a claim: the policy is
	// not ready, or was not, or objects were created without a review. They are looked at as soon as
	// that can be, also after a restart.
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
