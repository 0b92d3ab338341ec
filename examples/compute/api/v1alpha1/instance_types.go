package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of an Instance, besides QuotaGranted and QuotaResizePending of sdk/claims. While it has no machine because
// QuotaGranted is not True, they are False with reason PendingQuota.
const (
	// ConditionProgrammed is True once there is a machine for the Instance that is as it should be.
	ConditionProgrammed = "Programmed"
	// ConditionRunning is True while the machine runs.
	ConditionRunning = "Running"
	// ConditionReady is True while the machine can be used.
	ConditionReady = "Ready"
)

// FinalizerMachine keeps an Instance, and so the quota that it holds, until its machine is gone.
const FinalizerMachine = "compute.datumapis.com/machine"

// Instance is a machine. It may always be created; the machine is made once the Project, that its namespace is labelled
// with, has the quota for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=instances,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Network IP",type=string,JSONPath=`.status.networkIP`
// +kubebuilder:printcolumn:name="External IP",type=string,JSONPath=`.status.externalIP`
// +kubebuilder:printcolumn:name="Provider",type=string,priority=1,JSONPath=`.status.provider`
// +kubebuilder:printcolumn:name="Age",type=date,priority=1,JSONPath=`.metadata.creationTimestamp`
type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the machine is to be.
	Spec InstanceSpec `json:"spec"`

	// status is what it is.
	// +optional
	Status InstanceStatus `json:"status,omitzero"`
}

// InstanceSpec is what a machine is to be.
//
// +kubebuilder:validation:XValidation:rule="self.resources.gpus == oldSelf.resources.gpus",message="resources.gpus cannot be changed: create another Instance"
type InstanceSpec struct {
	// image is what the machine runs. Changing it restarts the machine.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Image string `json:"image"`

	// resources are what the machine has to itself, and what its Project pays for. vcpus and memory may be changed: what
	// becomes more is given to the machine once there is quota for it, and until then it keeps what it has.
	Resources Resources `json:"resources"`
}

// Resources are what a machine has to itself.
type Resources struct {
	// vcpus is how many CPUs, such as 2 or 500m, more than 0. Parts of a thousandth count as one.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1M'))",message="give an amount between 0 and 1M"
	VCPUs resource.Quantity `json:"vcpus"`

	// memory is how many bytes of memory, such as 4Gi, more than 0. Parts of a MiB count as one.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1Pi'))",message="give an amount between 0 and 1Pi"
	Memory resource.Quantity `json:"memory"`

	// gpus is how many GPUs, 0 to 64. It cannot be changed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=0
	GPUs int32 `json:"gpus"`
}

// InstanceStatus is what a machine is.
type InstanceStatus struct {
	// conditions are QuotaGranted, Programmed (the machine is as it should be), Running and Ready, and QuotaResizePending while the machine waits for other
	// resources.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// externalIP is the address by which the machine is reached from outside, if it has one.
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// networkIP is the machine's address in its network.
	// +optional
	NetworkIP string `json:"networkIP,omitempty"`

	// observedGeneration is the metadata.generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// provider is what the machine is: Pod, or Simulated, which is none.
	// +optional
	Provider string `json:"provider,omitempty"`

	// reason says in a word why the machine can or cannot be used: the reason of the condition QuotaGranted while that is
	// not True, and of Ready otherwise.
	// +optional
	Reason string `json:"reason,omitempty"`

	// resources are what the machine has. It is absent while there is no machine.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
}

// InstanceList is a list of Instances.
//
// +kubebuilder:object:root=true
type InstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Instance `json:"items"`
}
