package caution

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// SystemObjects warns of objects of Kubernetes' controllers that a policy counts. An API server without Pods has no
// such controllers, and a standalone one serves none.
func (a *Adviser) SystemObjects(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy) []string {
	if _, err := a.Mapper.RESTMapping(schema.GroupKind{Kind: "Pod"}); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTimeout)
	defer cancel()
	return policy.SystemObjects(ctx, object)
}
