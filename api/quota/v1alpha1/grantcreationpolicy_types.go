package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons for the ParentContextReady condition of policies, besides [ReasonValidationFailed] and
// [ReasonPolicyDisabled]. Where several apply, the one that is listed first is given.
const (
	// ReasonParentContextUnresolved goes with ParentContextReady=False: for some matching object,
	// nameExpression does not yield a name.
	ReasonParentContextUnresolved = "NameUnresolved"

	// ReasonControlPlaneNotRegistered goes with ParentContextReady=False: no Secret registers a
	// control plane that a matching object needs.
	ReasonControlPlaneNotRegistered = "ControlPlaneNotRegistered"

	// ReasonControlPlaneInvalid goes with ParentContextReady=False: the kubeconfig of a control plane
	// cannot be used.
	ReasonControlPlaneInvalid = "ControlPlaneInvalid"

	// ReasonControlPlaneUnreachable goes with ParentContextReady=False: a control plane does not
	// answer, or not as it should.
	ReasonControlPlaneUnreachable = "ControlPlaneUnreachable"

	// ReasonControlPlanePending goes with ParentContextReady=Unknown: a control plane has not answered
	// yet, or not all objects have been looked at.
	ReasonControlPlanePending = "ControlPlanePending"

	// ReasonParentContextReady goes with ParentContextReady=True: every control plane that matching
	// objects need is registered and answers.
	ReasonParentContextReady = "ParentContextReady"
)

// GrantCreationPolicy gives capacity by itself: for every object of a kind that meets the
// policy's conditions, a grant is made from the policy's template. A policy is in force while its
// Ready condition is True.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=grantcreationpolicies,scope=Cluster,shortName=gcp,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.apiVersion`
// +kubebuilder:selectablefield:JSONPath=`.spec.target.parentContext.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.target.parentContext.apiGroup`
// +kubebuilder:selectablefield:JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Trigger",type=string,JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Grants",type=integer,JSONPath=`.status.grants`
// +kubebuilder:printcolumn:name="Gives",type=string,JSONPath=`.status.gives`
// +kubebuilder:printcolumn:name="API Version",type=string,JSONPath=`.spec.trigger.resource.apiVersion`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`,priority=1
type GrantCreationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is a reason to give capacity, and how much.
	Spec GrantCreationPolicySpec `json:"spec"`

	// status is what Bursar found out about the policy.
	// +optional
	Status GrantCreationPolicyStatus `json:"status,omitzero"`
}

// IsEnabled tells whether the policy is meant to apply. A policy that does not say is enabled.
func (p *GrantCreationPolicy) IsEnabled() bool {
	return p.Spec.Enabled == nil || *p.Spec.Enabled
}

// GrantCreationPolicySpec says what is a reason to give capacity, and how much.
type GrantCreationPolicySpec struct {
	// enabled turns the policy on (true, the default) or pauses it. While it is paused its grants stay as they
	// are: none are made, changed or deleted. Deleting the policy deletes its grants.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// target is the grant to make.
	Target GrantTarget `json:"target"`

	// trigger is which objects the policy applies to.
	Trigger GrantTrigger `json:"trigger"`
}

// GrantTrigger says which objects a GrantCreationPolicy applies to.
type GrantTrigger struct {
	// conditions have to hold all for the policy to apply, at most 10. Empty (the default) means
	// that it applies to every object of the kind. They are evaluated whenever the object changes;
	// when they hold no more, its grant is deleted. While one of them cannot be evaluated for an
	// object, its grant stays as it is.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Conditions []ConditionExpression `json:"conditions,omitempty"`

	// resource is the kind of object.
	Resource GrantTriggerResource `json:"resource"`
}

// GrantTriggerResource names a kind of object.
type GrantTriggerResource struct {
	// apiVersion is the API group and version, such as apps/v1, or v1 for the core group.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?v[0-9]+((alpha|beta)[0-9]*)?$`
	APIVersion string `json:"apiVersion"`

	// kind is the kind of object, such as Organization: a capital letter, then letters and digits,
	// 63 characters at most. It may be one that is defined later.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][a-zA-Z0-9]*$`
	Kind string `json:"kind"`
}

// GrantTarget says which grant a GrantCreationPolicy makes, and where.
type GrantTarget struct {
	// parentContext is the control plane to make the grant in. Absent (the default), it is the one
	// that the policy is in. Changing it moves the grants.
	// +optional
	ParentContext *ParentContext `json:"parentContext,omitempty"`

	// resourceGrantTemplate is what the grant looks like. Its strings may hold Go templates, which
	// see .trigger and .object (the object), and .user and .requestInfo, of which all fields are empty
	// as there is no request. Changing the template changes the grants.
	ResourceGrantTemplate ResourceGrantTemplate `json:"resourceGrantTemplate"`
}

// ParentContext names a control plane by the object that stands for it. Control planes are
// registered by Secrets in Bursar's system namespace that carry the labels
// quota.miloapis.com/control-plane-group, -kind and -name and hold a kubeconfig, or by those that
// Cluster API makes for its Clusters there.
type ParentContext struct {
	// apiGroup is the API group of that object, a DNS subdomain of at most 253 characters.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup"`

	// kind is the kind of that object: a capital letter, then letters and digits, 63 characters at
	// most.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][a-zA-Z0-9]*$`
	Kind string `json:"kind"`

	// nameExpression is a CEL expression that yields the name of that object, of 1 to 512
	// characters. It sees the object that the policy applies to as trigger and as object. An example:
	// trigger.spec.organization. An object for which it yields no name, or an empty one, gets no grant.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	NameExpression string `json:"nameExpression"`
}

// ResourceGrantTemplate is the pattern for the grants of a policy.
type ResourceGrantTemplate struct {
	// metadata is the grant's name, namespace, labels and annotations. An object always gets a grant
	// of the same name: a name that is not given in full ends in a hash of the policy and the object.
	Metadata ObjectTemplateMetadata `json:"metadata"`

	// spec is what the grant gives, and to whom. The fields of consumerRef may hold Go templates;
	// resource types and amounts are fixed. Without a parent context, the resource types have to be
	// registered here for a consumer of that kind.
	Spec ResourceGrantSpec `json:"spec"`
}

// GrantCreationPolicyStatus is what Bursar found out about a policy.
type GrantCreationPolicyStatus struct {
	// conditions holds Ready and, where a parent context is set, ParentContextReady. Ready is True
	// with reason PolicyReady while the policy is in force, and False with reason ValidationFailed (the
	// message says what is wrong) or PolicyDisabled while it is not. ParentContextReady is True while
	// every control plane that matching objects need is registered and answers; else its reason and
	// message say which is not, and what to do. An object that the policy cannot be applied to does
	// not make the policy less ready: an event on the policy reports it.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// gives is what each grant of the policy gives, for people to read, in display units: of the first allowances, such
	// as "cpu=540 cores (location=DLS), projects=10 projects", in at most 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Gives string `json:"gives,omitempty"`

	// grants is the number of objects that the policy keeps a grant for, which follows within some seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Grants int64 `json:"grants"`

	// observedGeneration is the metadata.generation that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// GrantCreationPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type GrantCreationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GrantCreationPolicy `json:"items"`
}
