package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// ConditionReplicasReady is True while the desired number of replicas is ready.
	ConditionReplicasReady = "ReplicasReady"
	// ReasonReplicasReady goes with ReplicasReady=True.
	ReasonReplicasReady = "AllReady"
	// ReasonProgressing goes with ReplicasReady=False: some replicas are being made, or are not ready yet.
	ReasonProgressing = "Progressing"

	// LabelWorkloadDeployment names the WorkloadDeployment of an Instance.
	LabelWorkloadDeployment = "compute.datumapis.com/workload-deployment"
)

// WorkloadDeployment runs a number of identical Instances. Instances without quota wait, and the condition
// ReplicasReady counts them.
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

	// spec is the desired number of Instances, and their template.
	Spec WorkloadDeploymentSpec `json:"spec"`

	// status is the actual number of Instances.
	// +optional
	Status WorkloadDeploymentStatus `json:"status,omitzero"`
}

// WorkloadDeploymentSpec is the desired number of Instances, and their template.
type WorkloadDeploymentSpec struct {
	// replicas is the desired number of Instances, 0 to 10000. The default is 1. Scaling down removes Instances without
	// quota first.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// template is the template of each Instance. Changing it changes the Instances. Ready ones change one by one.
	Template InstanceTemplate `json:"template"`

	// quota limits the replicas that wait for quota.
	// +optional
	// +kubebuilder:default={}
	Quota ReplicaQuota `json:"quota,omitzero"`
}

// InstanceTemplate is the template of an Instance.
type InstanceTemplate struct {
	// metadata is the metadata of the Instance besides its name.
	// +optional
	Metadata InstanceTemplateMetadata `json:"metadata,omitzero"`

	// spec is the spec of the Instance.
	Spec InstanceSpec `json:"spec"`
}

// InstanceTemplateMetadata is the metadata of an Instance.
type InstanceTemplateMetadata struct {
	// labels are set on the Instance when it is created.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ReplicaQuota limits the replicas that wait for quota.
type ReplicaQuota struct {
	// waitingReplicasMax bounds the Instances without quota, 1 to 1000. The default is 10. Once there is quota they
	// take it at once, and others are created instead of them.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	WaitingReplicasMax int32 `json:"waitingReplicasMax,omitempty"`

	// waitingTTL is how long an Instance without enough quota is kept, such as 30m or 24h, at least 1s. It is then
	// deleted, and created again when there is quota or the spec changes. Without it, the default, such an Instance is
	// kept until it has quota or is no longer desired.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="give 1s or more"
	WaitingTTL *metav1.Duration `json:"waitingTTL,omitempty"`
}

// WorkloadDeploymentStatus is the actual number of Instances.
type WorkloadDeploymentStatus struct {
	// conditions have ReplicasReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// desiredReplicas is the desired number of Instances.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`

	// observedGeneration is the metadata.generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// quotaBlockedReplicas is the number of desired replicas without quota because there is not enough, with or without
	// Instances. replicas does not count them.
	// +optional
	QuotaBlockedReplicas int32 `json:"quotaBlockedReplicas"`

	// quotaExpiredReplicas is the number of blocked replicas that were removed by spec.quota.waitingTTL until there is
	// quota.
	// +optional
	QuotaExpiredReplicas int32 `json:"quotaExpiredReplicas,omitempty"`

	// readyReplicas is the number of ready Instances.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// replicas is the number of Instances with quota.
	// +optional
	Replicas int32 `json:"replicas"`

	// selector selects the Instances, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// updatedReplicas is the number of Instances with quota that match the template and have its resources.
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
