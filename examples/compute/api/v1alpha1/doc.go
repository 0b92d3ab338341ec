// Package v1alpha1 has the kinds of the compute service: Instances (machines) and WorkloadDeployments (a number of
// identical Instances).
//
// +kubebuilder:object:generate=true
// +groupName=compute.datumapis.com
package v1alpha1

//go:generate go tool controller-gen object crd paths=. output:crd:dir=../../config/crds
