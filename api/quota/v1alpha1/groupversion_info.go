package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "quota.miloapis.com"

// GrantedVersion is the version in which Bursar creates granted claims, see package v1alpha1granted. Only Bursar may
// write claims in it.
const GrantedVersion = "v1alpha1granted"

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

// Resource qualifies a plural resource name, such as "resourceclaims", with the API group.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&AllowanceBucket{}, &AllowanceBucketList{},
		&ClaimCreationPolicy{}, &ClaimCreationPolicyList{},
		&ConsumerLedger{}, &ConsumerLedgerList{},
		&AllocationLedger{}, &AllocationLedgerList{},
		&EffectiveResourceGrant{}, &EffectiveResourceGrantList{},
		&GrantCreationPolicy{}, &GrantCreationPolicyList{},
		&LocalResourceQuotaAllocation{}, &LocalResourceQuotaAllocationList{},
		&QuotaAlert{}, &QuotaAlertList{},
		&QuotaDecision{}, &QuotaDecisionList{}, &QuotaHistory{}, &QuotaHistoryList{},
		&QuotaRequest{}, &QuotaRequestList{}, &QuotaRequestPolicy{}, &QuotaRequestPolicyList{}, &QuotaReview{}, &QuotaReviewList{}, &QuotaUsage{}, &QuotaUsageList{},
		&ResourceClaim{}, &ResourceClaimList{},
		&ResourceGrant{}, &ResourceGrantList{},
		&ResourceQuotaAllocation{}, &ResourceQuotaAllocationList{},
		&ResourceRegistration{}, &ResourceRegistrationList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
