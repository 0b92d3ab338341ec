package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// ConditionReplicasReady is True while as many replicas are ready as are desired.
	ConditionReplicasReady = "ReplicasReady"
	// ReasonReplicasReady goes with ReplicasReady=True.
	ReasonReplicasReady = "AllReady"
	// ReasonProgressing goes with ReplicasReady=False: some replicas are being made, or are not ready yet.
	ReasonProgressing = "Progressing"

	// LabelWorkloadDeployment names the WorkloadDeployment of an Instance.
	LabelWorkloadDeployment = "compute.datumapis.com/workload-deployment"
)

// WorkloadDeployment keeps a number of Instances that are alike. Those for which there is no quota wait, and the
// condition ReplicasReady counts them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=workloaddeployments,scope=Namespaced,shortName=wld
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 58",message="metadata.name may have 58 characters, as it begins the names of the Instances"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Blocked",type=integer,priority=1,JSONPath=`.status.quotaBlockedReplicas`
// +kubebuilder:printcolumn:name="Age",type=date,priority=1,JSONPath=`.metadata.creationTimestamp`
type WorkloadDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how many Instances there are to be, and of which kind.
	Spec WorkloadDeploymentSpec `json:"spec"`

	// status is how many there are.
	// +optional
	Status WorkloadDeploymentStatus `json:"status,omitzero"`
}

// WorkloadDeploymentSpec is how many Instances there are to be, and of which kind.
type WorkloadDeploymentSpec struct {
	// replicas is how many Instances there are to be, 0 to 10000. The default is 1. Those that have no quota go first when
	// it becomes less.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// template is what each Instance looks like. Changing it changes the Instances, one by one where they are ready.
	Template InstanceTemplate `json:"template"`

	// quota says what becomes of replicas for which there is no quota.
	// +optional
	// +kubebuilder:default={}
	Quota ReplicaQuota `json:"quota,omitzero"`
}

// InstanceTemplate is what an Instance looks like.
type InstanceTemplate struct {
	// metadata is what is put onto the Instance besides its name.
	// +optional
	Metadata InstanceTemplateMetadata `json:"metadata,omitzero"`

	// spec is that of the Instance.
	Spec InstanceSpec `json:"spec"`
}

// InstanceTemplateMetadata is what is put onto an Instance.
type InstanceTemplateMetadata struct {
	// labels are put onto the Instance when it is created.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ReplicaQuota says what becomes of replicas for which there is no quota.
type ReplicaQuota struct {
	// waitingReplicasMax is how many Instances at most are there without quota, 1 to 1000. The default is 10. Once there is
	// quota these take it at once, and others are created in their place.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	WaitingReplicasMax int32 `json:"waitingReplicasMax,omitempty"`

	// waitingTTL is how long an Instance is kept for which there is not enough quota, such as 30m or 24h, at least 1s. It
	// is then deleted, and created anew when there is quota or the spec is changed. Without it, the default, such an
	// Instance is kept until it has quota or is not desired any more.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="give 1s or more"
	WaitingTTL *metav1.Duration `json:"waitingTTL,omitempty"`
}

// WorkloadDeploymentStatus is how many Instances there are.
type WorkloadDeploymentStatus struct {
	// conditions have ReplicasReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// desiredReplicas is how many Instances there are to be.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`

	// observedGeneration is the metadata.generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// quotaBlockedReplicas is how many of those desired have no quota because there is not enough, whether there are
	// Instances for them or not. replicas does not count them.
	// +optional
	QuotaBlockedReplicas int32 `json:"quotaBlockedReplicas"`

	// quotaExpiredReplicas is how many of the blocked ones have been given up by spec.quota.waitingTTL until there is quota.
	// +optional
	QuotaExpiredReplicas int32 `json:"quotaExpiredReplicas,omitempty"`

	// readyReplicas is how many Instances are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// replicas is how many Instances have quota.
	// +optional
	Replicas int32 `json:"replicas"`

	// selector selects the Instances, for whoever scales the deployment.
	// +optional
	Selector string `json:"selector,omitempty"`

	// updatedReplicas is how many Instances that have quota are as the template says, and have the resources that it says.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
}

// WorkloadDeploymentList is a list of WorkloadDeployments.
//
// +kubebuilder:object:root=true
type WorkloadDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WorkloadDeployment `json:"items"`
}
