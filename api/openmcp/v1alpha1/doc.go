// Package v1alpha1 has the types of the API group openmcp.cloud, version v1alpha1, for the ResourceQuotas of
// namespaces: QuotaServiceConfig gives every namespace a base, and QuotaIncrease adds to it in one namespace. Kinds,
// labels and annotations are those of the openMCP quota operator, so its stored objects work here too. Bursar's
// additions are optional.
//
// The package imports only apimachinery and, for ResourceQuotas, the core API, so that any client can import it. The
// CRDs in deploy/crds come from the markers here, and the reference in docs/reference from the CRDs. The readers of the
// reference read the comments of fields.
//
// +kubebuilder:object:generate=true
// +groupName=openmcp.cloud
package v1alpha1

//go:generate go tool controller-gen object crd paths=. output:crd:dir=../../../deploy/crds
//go:generate go run ../../../hack/apireference -output ../../../docs/reference/api.md
