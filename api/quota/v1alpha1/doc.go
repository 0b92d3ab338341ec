// Package v1alpha1 has the types of the API group quota.miloapis.com, version v1alpha1. ResourceRegistration declares
// resource types. ResourceGrant gives consumers capacity, and ResourceClaim holds it for objects. AllowanceBucket and
// EffectiveResourceGrant have the sums of both. ClaimCreationPolicy and GrantCreationPolicy make claims and grants.
// QuotaRequest, QuotaDecision and QuotaRequestPolicy are for more quota, QuotaAlert for warnings, and QuotaReview,
// QuotaHistory and QuotaUsage for questions. ResourceQuotaAllocation, with its namespaced view
// LocalResourceQuotaAllocation, caps the ResourceQuotas of Kubernetes. ConsumerLedger and AllocationLedger are internal
// to Bursar.
//
// The package imports only apimachinery and, for ResourceQuotas, the core API, so that any client can import it. The
// CRDs in deploy/crds come from the markers here, and the reference in docs/reference from the CRDs. The readers of the
// reference read the comments of fields.
//
// +kubebuilder:object:generate=true
// +groupName=quota.miloapis.com
package v1alpha1

//go:generate go tool controller-gen object crd paths=. paths=../v1alpha1granted output:crd:dir=../../../deploy/crds
//go:generate go run ../../../hack/apireference -output ../../../docs/reference/api.md
