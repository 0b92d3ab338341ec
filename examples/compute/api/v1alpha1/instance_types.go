package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of an Instance, besides QuotaGranted and QuotaResizePending of sdk/claims. While it has no machine because
// QuotaGranted is not True, they are False with reason PendingQuota.
const (
	// ConditionProgrammed is True once the machine of the Instance is in its desired state.
	ConditionProgrammed = "Programmed"
	// ConditionRunning is True while the machine runs.
	ConditionRunning = "Running"
	// ConditionReady is True while the machine can be used.
	ConditionReady = "Ready"
)

// FinalizerMachine keeps an Instance, and so its quota, until its machine is gone.
const FinalizerMachine = "compute.datumapis.com/machine"

// Instance is a machine. It may always be created. The machine is made once there is quota for it in the Project that
// the namespace is labelled with.
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

	// spec is the desired machine.
	Spec InstanceSpec `json:"spec"`

	// status is the actual machine.
	// +optional
	Status InstanceStatus `json:"status,omitzero"`
}

// InstanceSpec is the desired machine.
//
// +kubebuilder:validation:XValidation:rule="self.resources.gpus == oldSelf.resources.gpus",message="resources.gpus cannot be changed: create another Instance"
type InstanceSpec struct {
	// image is the image that the machine runs. Changing it restarts the machine.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Image string `json:"image"`

	// resources are dedicated to the machine and charged to its Project. vcpus and memory may be changed: the machine
	// gets an increase once there is quota for it, and keeps its resources until then.
	Resources Resources `json:"resources"`
}

// Resources are the dedicated resources of a machine.
type Resources struct {
	// vcpus is the number of CPUs, such as 2 or 500m, more than 0. It is rounded up to thousandths.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1M'))",message="give an amount between 0 and 1M"
	VCPUs resource.Quantity `json:"vcpus"`

	// memory is the number of bytes of memory, such as 4Gi, more than 0. It is rounded up to MiB.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1Pi'))",message="give an amount between 0 and 1Pi"
	Memory resource.Quantity `json:"memory"`

	// gpus is the number of GPUs, 0 to 64. It cannot be changed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=0
	GPUs int32 `json:"gpus"`
}

// InstanceStatus is the actual machine.
type InstanceStatus struct {
	// conditions are QuotaGranted, Programmed (the machine is in its desired state), Running and Ready, and
	// QuotaResizePending while the machine waits for other resources.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// externalIP is the external address of the machine, if it has one.
	// +optional
	ExternalIP string `json:"externalIP,omitempty"`

	// networkIP is the machine's address in its network.
	// +optional
	NetworkIP string `json:"networkIP,omitempty"`

	// observedGeneration is the metadata.generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// provider is the kind of the machine: Pod, or Simulated if nothing runs.
	// +optional
	Provider string `json:"provider,omitempty"`

	// reason is a short reason why the machine can or cannot be used: the reason of the condition QuotaGranted while
	// that is not True, and of Ready otherwise.
	// +optional
	Reason string `json:"reason,omitempty"`

	// resources are the resources of the machine. It is absent while there is no machine.
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
