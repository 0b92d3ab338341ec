package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reasons for the ParentContextReady condition of policies, besides [ReasonValidationFailed] and
// [ReasonPolicyDisabled]. If several apply, the first in this list counts.
const (
	// ReasonParentContextUnresolved goes with ParentContextReady=False: for some matching object, nameExpression does
	// not yield a name.
	ReasonParentContextUnresolved = "NameUnresolved"

	// ReasonControlPlaneNotRegistered goes with ParentContextReady=False: no Secret registers the control plane of a
	// matching object.
	ReasonControlPlaneNotRegistered = "ControlPlaneNotRegistered"

	// ReasonControlPlaneInvalid goes with ParentContextReady=False: the kubeconfig of a control plane is invalid.
	ReasonControlPlaneInvalid = "ControlPlaneInvalid"

	// ReasonControlPlaneUnreachable goes with ParentContextReady=False: a control plane does not answer, or answers
	// with an error.
	ReasonControlPlaneUnreachable = "ControlPlaneUnreachable"

	// ReasonControlPlanePending goes with ParentContextReady=Unknown: a control plane has not answered yet, or Bursar has
	// not processed all objects.
	ReasonControlPlanePending = "ControlPlanePending"

	// ReasonParentContextReady goes with ParentContextReady=True: Secrets register the control planes of all matching
	// objects, and every one answers.
	ReasonParentContextReady = "ParentContextReady"
)

// GrantCreationPolicy grants capacity automatically. For every object of a kind, Bursar makes a grant from the policy's
// template, if the object meets the policy's conditions. A policy is effective while its Ready condition is True.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=grantcreationpolicies,scope=Cluster,shortName=gcp,categories=bursar
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.trigger.resource.apiVersion`
// +kubebuilder:selectablefield:JSONPath=`.spec.target.parentContext.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.target.parentContext.apiGroup`
// +kubebuilder:selectablefield:JSONPath=`.spec.enabled`
// +kubebuilder:selectablefield:JSONPath=`.spec.disabled`
// +kubebuilder:printcolumn:name="Trigger",type=string,JSONPath=`.spec.trigger.resource.kind`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Grants",type=integer,JSONPath=`.status.grants`
// +kubebuilder:printcolumn:name="Gives",type=string,JSONPath=`.status.gives`
// +kubebuilder:printcolumn:name="Parent Ready",type=string,JSONPath=`.status.conditions[?(@.type=='ParentContextReady')].status`
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`,priority=1
// +kubebuilder:printcolumn:name="API Version",type=string,JSONPath=`.spec.trigger.resource.apiVersion`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`,priority=1
type GrantCreationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the kind of object, and the grant for each object.
	Spec GrantCreationPolicySpec `json:"spec"`

	// status is the state of the policy.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status GrantCreationPolicyStatus `json:"status,omitzero"`
}

// IsEnabled reports whether the policy is enabled: neither enabled nor disabled turns it off. The default is true.
func (p *GrantCreationPolicy) IsEnabled() bool {
	return (p.Spec.Enabled == nil || *p.Spec.Enabled) && !p.Spec.Disabled
}

// GrantCreationPolicySpec is the kind of object, and the grant for each object.
type GrantCreationPolicySpec struct {
	// enabled turns the policy on (true, the default) or pauses it. During the pause Bursar creates, changes and deletes
	// no grant of the policy. Deleting the policy deletes its grants.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// disabled pauses the policy (true), as enabled: false does. Default: false.
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled,omitempty"`

	// target is the grant to make.
	Target GrantTarget `json:"target"`

	// trigger selects the objects of the policy.
	Trigger GrantTrigger `json:"trigger"`
}

// GrantTrigger selects the objects of a GrantCreationPolicy.
type GrantTrigger struct {
	// conditions are the conditions of the policy, at most 10. The policy applies to an object if all of them hold. Empty
	// (the default), it applies to every object of the kind. Bursar evaluates them after every change of the object, and
	// deletes the grant once they no longer hold. While the evaluation of one of them fails for an object, its grant stays
	// as it is.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Conditions []ConditionExpression `json:"conditions,omitempty"`

	// constraints are further conditions, at most 10 together with those in conditions. All must hold.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	Constraints []ConditionExpression `json:"constraints,omitempty"`

	// resource is the kind of object.
	Resource GrantTriggerResource `json:"resource"`
}

// GrantTriggerResource names a kind of object.
type GrantTriggerResource struct {
	// apiVersion is the API group and version, such as apps/v1, or v1 for the core group.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?v[0-9]+((alpha|beta)[0-9]*)?$`
	APIVersion string `json:"apiVersion"`

	// kind is the kind of object, such as Organization: a capital letter, then letters and digits, 63 characters at most.
	// The kind need not exist yet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][a-zA-Z0-9]*$`
	Kind string `json:"kind"`
}

// GrantTarget is the grant of a GrantCreationPolicy, with its control plane.
type GrantTarget struct {
	// parentContext is the control plane of the grant. Absent (the default), it is the policy's own. Changing it moves the
	// grants.
	// +optional
	ParentContext *ParentContext `json:"parentContext,omitempty"`

	// resourceGrantTemplate is the template of the grant. Its strings may have CEL expressions in double braces. These see
	// trigger and object (the object). The strings may also be Go templates. These see .trigger and .object, and also
	// .user and .requestInfo, with empty fields because there is no request. Changing the template changes the grants.
	ResourceGrantTemplate ResourceGrantTemplate `json:"resourceGrantTemplate"`
}

// ParentContext names a control plane by an object standing for it. Secrets in Bursar's system namespace register
// control planes. They have the labels quota.miloapis.com/control-plane-group, -kind and -name and a kubeconfig, or
// come from Cluster API for its Clusters there.
type ParentContext struct {
	// apiGroup is the API group of that object, a DNS subdomain of at most 253 characters.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup"`

	// kind is the kind of that object: a capital letter, then letters and digits, 63 characters at most.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][a-zA-Z0-9]*$`
	Kind string `json:"kind"`

	// nameExpression is a CEL expression for the name of that object, of 1 to 512 characters. It sees the policy's object
	// as trigger and as object. An example: trigger.spec.organization. If it yields no name, or an empty one, the policy's
	// object gets no grant.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	NameExpression string `json:"nameExpression"`
}

// ResourceGrantTemplate is the template of a policy's grants.
type ResourceGrantTemplate struct {
	// metadata is the grant's name, namespace, labels and annotations. An object always gets a grant of the same name:
	// a generated name ends in a hash of the policy and the object.
	Metadata ObjectTemplateMetadata `json:"metadata"`

	// spec is the consumer and the allowances of the grant. The fields of consumerRef may be templates; resource types and
	// amounts are fixed. Without a parent context, registrations here must list the resource types for a consumer of that
	// kind.
	Spec ResourceGrantSpec `json:"spec"`
}

// GrantCreationPolicyStatus is the state of a policy.
type GrantCreationPolicyStatus struct {
	// conditions has Ready and, if a parent context is set, ParentContextReady. Ready is True with reason PolicyReady
	// while the policy is effective, and False with reason ValidationFailed (the message has the errors) or PolicyDisabled
	// while it is not. ParentContextReady is True with reason ParentContextReady while Secrets register the control planes
	// of all matching objects, and every one answers. Otherwise its reason is NameUnresolved, ControlPlaneNotRegistered,
	// ControlPlaneInvalid, ControlPlaneUnreachable or ControlPlanePending, and its message names the control plane and the
	// next step. A failure of the policy for one object does not affect Ready: an event on the policy reports it.
	// While Ready or ParentContextReady is not True, an enabled policy also has Reconciling or, if its spec is invalid,
	// Stalled.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// gives has the amounts of each grant of the policy, for people, in display units and in at most 200 characters. It
	// has the first allowances, such as "cpu=540 cores (location=DLS), projects=10 projects".
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Gives string `json:"gives,omitempty"`

	// grants is the number of objects with a grant of the policy. It follows within some seconds. An object does not count
	// while its control plane is unknown or has not answered yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Grants int64 `json:"grants"`

	// observedGeneration is the metadata.generation behind the conditions.
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
