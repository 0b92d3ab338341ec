package validate

import (
	"context"
	"fmt"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claimcache"
)

// claimDeletion keeps a policy's claim for as long as the object exists that it pays for: without
// it the object would be used for free. The claims of a namespace that is being deleted go.
func (w *Webhooks) claimDeletion(ctx context.Context, claim *quotav1alpha1.ResourceClaim, byBursar bool) verdict {
	if byBursar || claim.DeletionTimestamp != nil || !claimcache.IsFromPolicy(claim) {
		return verdict{}
	}
	ref := claim.Spec.ResourceRef
	exists, err := w.ObjectExists(ctx, claim)
	if err != nil {
		return verdict{unknown: fmt.Errorf("find out whether %s %s exists: %w", ref.Kind, ref.Name, err)}
	}
	if !exists {
		return verdict{}
	}
	active, err := w.NamespaceActive(ctx, claim.Namespace)
	if err != nil {
		return verdict{unknown: fmt.Errorf("find out whether namespace %s is being deleted: %w", claim.Namespace, err)}
	}
	if !active {
		return verdict{}
	}
	return verdict{forbidden: fmt.Sprintf("claim %s pays for %s %s, which still exists; delete the %s instead",
		claim.Name, ref.Kind, ref.Name, ref.Kind)}
}
