// Package v1alpha1 has the types of the API group openmcp.cloud, version v1alpha1, for the ResourceQuotas of
// namespaces: QuotaServiceConfig gives every namespace a base, and QuotaIncrease adds to it in one namespace. Kinds,
// labels and annotations are those of the openMCP quota operator, so that objects stored for it work here too. Bursar's
// additions are optional.
//
// The package imports only apimachinery and, for ResourceQuotas, the core API, so that any client can import it. The
// CRDs in deploy/crds are generated from the markers here. The reference in docs/reference is generated from the CRDs,
// and the field comments are written for its readers.
//
// +kubebuilder:object:generate=true
// +groupName=openmcp.cloud
package v1alpha1

//go:generate go tool controller-gen object crd paths=. output:crd:dir=../../../deploy/crds
//go:generate go run ../../../hack/apireference -output ../../../docs/reference/api.md
