// Package v1alpha1granted is the version of ResourceClaim in which Bursar creates the claims of policies. The version
// has no status subresource. So the API server stores the status of a create, and a granted claim costs one write
// instead of two. Objects and their meaning are those of v1alpha1. The API server checks no schema, because Bursar is
// the only writer: its webhooks deny everybody else. Read claims in v1alpha1.
//
// No code imports this package. Its types are here for the generated CRD.
//
// +kubebuilder:object:generate=true
// +groupName=quota.miloapis.com
package v1alpha1granted

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceClaim is a claim granted from its creation on. Only Bursar writes claims in this version.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceclaims,scope=Namespaced,shortName=rclaim,categories=bursar
type ResourceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of v1alpha1.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec"`

	// status is the status of v1alpha1.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Status runtime.RawExtension `json:"status,omitempty"`
}
