// Package v1alpha1 has the types of the API group quota.miloapis.com, version v1alpha1: the countable resource types
// (ResourceRegistration), the capacity of consumers (ResourceGrant), the use by objects (ResourceClaim), the sums of
// both (AllowanceBucket, EffectiveResourceGrant), and the policies that make claims and grants (ClaimCreationPolicy,
// GrantCreationPolicy). ResourceQuotaAllocation, with its namespaced view LocalResourceQuotaAllocation, caps the
// ResourceQuotas of Kubernetes. ConsumerLedger and AllocationLedger are internal to Bursar.
//
// The package imports only apimachinery and, for ResourceQuotas, the core API, so that any client can import it. The
// CRDs in deploy/crds are generated from the markers here. The reference in docs/reference is generated from the CRDs,
// and the field comments are written for its readers.
//
// +kubebuilder:object:generate=true
// +groupName=quota.miloapis.com
package v1alpha1

//go:generate go tool controller-gen object crd paths=. paths=../v1alpha1granted output:crd:dir=../../../deploy/crds
//go:generate go run ../../../hack/apireference -output ../../../docs/reference/api.md
