package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ClaimCreationPolicyStatus is the state of a policy.
type ClaimCreationPolicyStatus struct {
	// adoption tells how existing objects count by the policy. It is absent until the policy is effective.
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

// DecodeSpec returns the spec of the generation, or nil if another version of Bursar wrote it and this one cannot read
// it.
func (e *EffectivePolicy) DecodeSpec() *ClaimCreationPolicySpec {
	spec := &ClaimCreationPolicySpec{}
	if json.Unmarshal(e.Spec.Raw, spec) != nil {
		return nil
	}
	return spec
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

// AdoptionStatus tells how existing objects count by a policy, even beyond a limit. It is up to a minute old. Objects
// from before a policy with claims of record do not count.
type AdoptionStatus struct {
	// adopted is the number of objects that count by the policy. It is 0 for a policy with claims of record.
	// +kubebuilder:validation:Minimum=0
	Adopted int64 `json:"adopted"`

	// completionTime is the time at which Bursar had processed every object.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// failed is the number of objects that the policy fails for. They cost nothing by it.
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`

	// message names one of the failed objects, with the reason, or says why no existing object counts.
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
}
