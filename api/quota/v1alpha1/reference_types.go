package v1alpha1

// ConsumerRef identifies the consumer of quota. All four fields together are the identity: consumers that differ only
// in group or namespace have separate ledgers.
//
// In the templates of policies the fields may be templates.
type ConsumerRef struct {
	// apiGroup is the API group of the consumer, such as resourcemanager.miloapis.com. Empty (the default), it matches no
	// registration, because the consumerType of a registration has a group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the consumer's kind, such as Organization. The registration of every resource type involved must have
	// this kind, and the API group above, in spec.consumerType.
	Kind string `json:"kind"`

	// name is the consumer's name. The consumer itself need not exist yet.
	Name string `json:"name"`

	// namespace is the consumer's namespace; leave it empty (the default) for cluster-scoped consumers. The buckets of a
	// consumer with a namespace are in this namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// UnversionedObjectReference identifies an object by API group instead of API version, so that the reference outlives
// version changes.
type UnversionedObjectReference struct {
	// apiGroup is the API group of the object. Empty (the default), it is the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the object's kind, such as Project.
	Kind string `json:"kind"`

	// name is the object's name.
	Name string `json:"name"`

	// namespace is the object's namespace; leave it empty (the default) for cluster-scoped objects.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
