package v1alpha1

// ResourceRequest is an amount of one resource type.
type ResourceRequest struct {
	// amount is how much is asked for, in base units of the resource type. The schema admits 0;
	// claims and policies that ask for 0 are refused all the same.
	// +kubebuilder:validation:Minimum=0
	Amount int64 `json:"amount"`

	// dimensions tell what the amount is for, such as a location: at most 16 entries with keys of
	// at most 317 and values of at most 253 characters. Only allowances whose dimensionSelector
	// matches them can pay for the request, and the registration of the resource type has to allow
	// their keys. Empty (the default), only allowances that match the absence of every dimension
	// can.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 253)",message="dimensions must have keys of at most 317 and values of at most 253 characters"
	Dimensions map[string]string `json:"dimensions,omitempty"`

	// resourceType is what is asked for: the spec.resourceType of an active registration, at most
	// 253 characters.
	// +kubebuilder:validation:MaxLength=253
	ResourceType string `json:"resourceType"`
}
