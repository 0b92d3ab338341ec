// Package v1alpha1 holds the types of the API group openmcp.cloud, version v1alpha1, that say which
// ResourceQuota a namespace has: QuotaServiceConfig gives every namespace a base, and QuotaIncrease adds
// to it in one namespace. Kinds, labels and annotations are those of the openMCP quota operator, so that what
// is stored for it works here too. What Bursar adds is optional.
//
// The package imports apimachinery and, for what a ResourceQuota is, the core API alone, so that any client
// can import it. The CRDs in deploy/crds are generated from the markers here, and from those the reference in
// docs/reference, for which the field comments are written.
//
// +kubebuilder:object:generate=true
// +groupName=openmcp.cloud
package v1alpha1

//go:generate go tool controller-gen object crd paths=. output:crd:dir=../../../deploy/crds
//go:generate go run ../../../hack/apireference -output ../../../docs/reference/api.md
