package v1alpha1

// ResourceRequest is an amount of one resource type.
type ResourceRequest struct {
	// amount is the requested amount, in base units of the resource type, at least 1. The schema permits 0, but Bursar
	// rejects claims and policies with 0.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`

	// dimensions classify the amount, such as by location: at most 16 entries with keys of at most 317 and values of at
	// most 253 characters. Only allowances with a matching dimensionSelector can pay for the request, and the registration
	// of the resource type must allow the keys. Empty (the default), only allowances with a match for the absence of every
	// dimension can.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 253)",message="dimensions must have keys of at most 317 and values of at most 253 characters"
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// resourceType is the requested resource type: the spec.resourceType of an active registration, at most 253
	// characters.
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}
