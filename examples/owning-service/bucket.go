// +kubebuilder:object:generate=true
// +groupName=hosting.example.com
// +versionName=v1

package main

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go tool controller-gen object crd paths=. output:crd:dir=crds

// finalizer keeps a Bucket, and so its charge, until its directory is gone.
const finalizer = "hosting.example.com/directory"

var groupVersion = schema.GroupVersion{Group: "hosting.example.com", Version: "v1"}

// addBuckets adds the kind to a scheme.
func addBuckets(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Bucket{}, &BucketList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

// Bucket is room for files.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Size,type=string,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name=Quota,type=string,JSONPath=`.status.conditions[?(@.type=="QuotaGranted")].reason`
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BucketSpec   `json:"spec"`
	Status BucketStatus `json:"status,omitempty"`
}

// BucketSpec is the desired state of a Bucket.
type BucketSpec struct {
	// size is the room in bytes, such as 10Gi.
	Size resource.Quantity `json:"size"`
}

// BucketStatus is the state of a Bucket.
type BucketStatus struct {
	// conditions are QuotaGranted and Ready.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BucketList is a list of Buckets.
//
// +kubebuilder:object:root=true
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Bucket `json:"items"`
}
