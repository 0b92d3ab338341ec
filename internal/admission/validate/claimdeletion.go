package validate

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

// claimDeletion forbids deleting a policy's claim while its object exists: without the claim the object would use its
// quota for free. It permits the deletion of claims in a namespace under deletion.
func (w *Webhooks) claimDeletion(ctx context.Context, c change[quotav1alpha1.ResourceClaim]) result {
	claim := c.old
	if c.byBursar || claim.DeletionTimestamp != nil {
		return result{}
	}
	if !claimcache.IsFromPolicy(claim) {
		return result{warnings: w.warnChargeStays(ctx, c)}
	}
	ref := claim.Spec.ResourceRef
	exists, err := w.Engine.InUse(ctx, claim)
	if err != nil {
		return result{unknown: fmt.Errorf("find out whether %s %s exists: %w", ref.Kind, ref.Name, err)}
	}
	if !exists {
		return result{}
	}
	active, err := w.Namespaces.Active(ctx, claim.Namespace)
	if err != nil {
		return result{unknown: fmt.Errorf("find out whether namespace %s is being deleted: %w", claim.Namespace, err)}
	}
	if !active {
		return result{}
	}
	return result{forbidden: fmt.Sprintf("claim %s pays for %s %s, which still exists; delete the %s instead",
		claim.Name, ref.Kind, ref.Name, ref.Kind)}
}

// warnChargeStays warns the deleting person of a claim with a charge, if the charge stays until the deletion of its
// object. Programs, above all the garbage collector, delete very many claims and do not read warnings.
func (w *Webhooks) warnChargeStays(ctx context.Context, c change[quotav1alpha1.ResourceClaim]) []string {
	claim, ref := c.old, c.old.Spec.ResourceRef
	isProgram := strings.HasPrefix(c.username, serviceaccount.ServiceAccountUsernamePrefix) || strings.HasPrefix(c.username, "system:kube-")
	if isProgram || claimcache.StateOf(claim) != claimcache.Granted || claims.HasEarlyRelease(claim) {
		return nil
	}
	if exists, err := w.Engine.InUse(ctx, claim); err != nil || !exists {
		return nil
	}
	return []string{fmt.Sprintf("claim %s stays, with its charge, until %s %s is gone; to give the charge back now, annotate the claim with %s=true",
		claim.Name, ref.Kind, ref.Name, quotav1alpha1.AnnotationRelease)}
}
