package operator

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/controller/webhooks"
	"github.com/bursar/bursar/internal/policy"
)

// routes is where each webhook is served.
func (p *parts) routes(o *Operator) http.Handler {
	own := &validate.Webhooks{
		Username:         o.options.Username,
		RegisteredBy:     p.registeredBy,
		CheckGrant:       p.catalog.CheckGrant,
		CheckClaim:       p.catalog.CheckClaim,
		CompileCondition: policy.CheckCondition,
		ObjectExists:     p.objectLives,
		NamespaceActive:  p.namespaces.Active,
	}
	mux := http.NewServeMux()
	mux.Handle(webhooks.EnforcePath, p.enforcer)
	mux.Handle(webhooks.ProbePath, webhooks.Probe())
	mux.Handle(validate.ValidationPath, own.Validation())
	mux.Handle(validate.MutationPath, own.Mutation())
	return mux
}

// registeredBy asks the API server who registers a resource type.
func (p *parts) registeredBy(ctx context.Context, resourceType string) (string, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if err := p.manager.GetAPIReader().List(ctx, &list); err != nil {
		return "", err
	}
	for i := range list.Items {
		if list.Items[i].Spec.ResourceType == resourceType {
			return list.Items[i].Name, nil
		}
	}
	return "", nil
}

// objectLives asks the API server whether the object that a policy's claim pays for exists.
func (p *parts) objectLives(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error) {
	ref, uid := claim.Spec.ResourceRef, types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID])
	if p.lifecycle.IsGone(uid) {
		return false, nil
	}
	kind, name := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	return p.objects.Lives(ctx, kind, name, uid)
}
