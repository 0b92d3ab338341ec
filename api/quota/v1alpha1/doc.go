// Package v1alpha1 holds the types of the API group quota.miloapis.com, version v1alpha1: what
// can be counted (ResourceRegistration), who may have how much (ResourceGrant), who has taken
// what (ResourceClaim), the sums of both (AllowanceBucket, EffectiveResourceGrant), and the policies that make claims and
// grants by themselves (ClaimCreationPolicy, GrantCreationPolicy). ResourceQuotaAllocation, and
// LocalResourceQuotaAllocation, which shows it, cap the ResourceQuotas of Kubernetes. ConsumerLedger and
// AllocationLedger are Bursar's own and not for use by others.
//
// The package imports apimachinery and, for what a ResourceQuota is, the core API alone, so that any client can
// import it. The CRDs in deploy/crds are generated from the markers here, and from those the reference in
// docs/reference, for which the field comments are written.
//
// +kubebuilder:object:generate=true
// +groupName=quota.miloapis.com
package v1alpha1

//go:generate go tool controller-gen object crd paths=. output:crd:dir=../../../deploy/crds
//go:generate go run ../../../hack/apireference -output ../../../docs/reference/api.md
