package engine

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/policy"
)

// InUse asks the API server whether the object of a claim exists and, for a policy's claim, the policy itself. The
// claims of a deleted policy are not in use. Neither are claims of record, if a later policy of that name counts
// objects.
func (e *Engine) InUse(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error) {
	if !claimcache.IsFromPolicy(claim) {
		return e.namedObjectExists(ctx, claim)
	}
	lives, err := e.objectExists(ctx, claim)
	if !lives || err != nil {
		return false, err
	}
	madeIt := func(policy quotav1alpha1.ClaimCreationPolicy) bool {
		return claims.LabelValue(policy.Name) == claims.PolicyOf(claim) && claims.IsView(claim) == countsObjects(&policy)
	}
	// A policy in the cache exists; a policy outside the cache may be too new.
	for _, reader := range e.Policies {
		var list quotav1alpha1.ClaimCreationPolicyList
		if err := reader.List(ctx, &list); err != nil {
			return false, err
		}
		if slices.ContainsFunc(list.Items, madeIt) {
			return true, nil
		}
	}
	return false, nil
}

func countsObjects(object *quotav1alpha1.ClaimCreationPolicy) bool {
	compiled, errs := policy.Compile(object)
	return len(errs) == 0 && compiled.CountsObjects()
}

// objectExists asks the API server whether the object of a policy's claim exists.
func (e *Engine) objectExists(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error) {
	ref, uid := claim.Spec.ResourceRef, types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
	if e.IsGone(uid) {
		return false, nil
	}
	kind, name := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	return e.Objects.IsAlive(ctx, kind, name, uid)
}
