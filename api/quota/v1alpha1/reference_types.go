package v1alpha1

// ConsumerRef identifies whom quota is given to and taken from. All four fields together are the
// identity: consumers that differ in group or namespace alone have separate books.
//
// In the templates of policies the fields may hold Go templates.
type ConsumerRef struct {
	// apiGroup is the API group of the consumer, such as resourcemanager.miloapis.com. Empty
	// (the default) means the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the consumer's kind, such as Organization. The registration of every resource type
	// involved has to name this kind, and the API group above, in spec.consumerTypeRef.
	Kind string `json:"kind"`

	// name is the consumer's name. The consumer itself need not exist yet.
	Name string `json:"name"`

	// namespace is the consumer's namespace; leave it empty (the default) for consumers that are
	// cluster-scoped. The consumer's buckets live in this namespace where it is set.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// UnversionedObjectReference identifies an object by API group rather than API version, so that
// the reference outlives version changes.
type UnversionedObjectReference struct {
	// apiGroup is the API group of the object. Empty (the default) means the core group.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the object's kind, such as Project.
	Kind string `json:"kind"`

	// name is the object's name.
	Name string `json:"name"`

	// namespace is the object's namespace; leave it empty (the default) for objects that are
	// cluster-scoped.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
