package operator

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/caution"
	"github.com/bursar/bursar/internal/admission/preview"
	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/controller/grantpolicy"
	"github.com/bursar/bursar/internal/controller/registration"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/routing"
)

// routes is where each webhook is served.
func (p *parts) routes(o *Operator) http.Handler {
	previewer := &preview.Previewer{
		Evaluator: p.evaluator, Kinds: p.kinds, Live: p.dynamic,
		Schemas: preview.Remember(&resolver.ClientDiscoveryResolver{Discovery: o.client.Discovery()}),
	}
	own := &validate.Webhooks{
		Username:          o.options.Username,
		SystemNamespace:   o.options.SystemNamespace,
		RegisteredBy:      p.registeredBy,
		RegistrationInUse: p.registrationInUse,
		AmountsOf: func(ctx context.Context, resourceType string) (string, error) {
			return registration.AmountsOf(ctx, p.manager.GetAPIReader(), resourceType)
		},
		Advice:           p.adviser(o),
		CheckNew:         p.catalog.CheckNew,
		CheckGrant:       p.catalog.CheckGrant,
		CheckClaim:       p.catalog.CheckClaim,
		CheckClaimPolicy: p.catalog.CheckPolicy,
		CheckClaiming:    p.catalog.CheckClaiming,
		CheckGrantPolicy: func(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) error {
			return grantpolicy.Check(ctx, p.kinds, p.catalog, policy)
		},
		PreviewClaimPolicy: previewer.ClaimPolicy,
		PreviewGrantPolicy: previewer.GrantPolicy,
		ClaimsOf: func(policy *quotav1alpha1.ClaimCreationPolicy) int {
			made := claims.LabelValue(policy.Name)
			return len(p.claims.Select(func(c *claimcache.Claim) bool { return c.Policy() == made }))
		},
		GrantsOf:           p.grantsOf,
		MayMarkGrants:      o.mayMarkGrants,
		MayEditDefinitions: o.mayEditDefinitions,
		MayRead: func(ctx context.Context, user authenticationv1.UserInfo, kind schema.GroupVersionKind) (bool, error) {
			return o.mayRead(ctx, p.kinds, user, kind)
		},
		CheckQuotaSpec:  p.quotaSpecs.Check,
		Projects:        p.projects.Selected,
		ObjectExists:    p.engine.InUse,
		NamespaceActive: p.namespaces.Active,
	}
	mux := http.NewServeMux()
	mux.Handle(webhookconfig.EnforcePath+"/{version}", p.enforcer)
	mux.Handle(webhookconfig.AdvisePath+"/{version}", p.enforcer.Advise())
	mux.Handle(webhookconfig.QuotaPath+"/{version}", p.quotas)
	mux.Handle(webhookconfig.BreakGlassPath, p.enforcer.BreakGlass())
	mux.Handle(p.reviewed.Handler())
	mux.Handle(routing.AlivePath, routing.Alive())
	mux.Handle(webhookconfig.ProbePath, webhookconfig.Probe())
	mux.Handle(validate.ValidationPath, own.Validation())
	mux.Handle(validate.MutationPath, own.Mutation())
	return mux
}

// adviser warns of effects that the authors of objects may not expect.
func (p *parts) adviser(o *Operator) *caution.Adviser {
	return &caution.Adviser{
		Mapper:     p.manager.GetRESTMapper(),
		Unreadable: p.permission.Follow,
		Unlookable: p.permission.Get,
		MayRead: func(ctx context.Context, user authenticationv1.UserInfo, kind schema.GroupVersionKind) (bool, error) {
			return o.mayRead(ctx, p.kinds, user, kind)
		},
		Exists:        p.objects.Exists,
		View:          p.store.View,
		Registrations: p.catalog,
	}
}

// registeredBy asks the API server who registers a resource type. One that is being deleted leaves it to another.
func (p *parts) registeredBy(ctx context.Context, resourceType string) (string, error) {
	var list quotav1alpha1.ResourceRegistrationList
	if err := p.manager.GetAPIReader().List(ctx, &list); err != nil {
		return "", err
	}
	for i := range list.Items {
		if list.Items[i].Spec.ResourceType == resourceType && list.Items[i].DeletionTimestamp == nil {
			return list.Items[i].Name, nil
		}
	}
	return "", nil
}

// registrationInUse asks the API server who relies on a registration.
func (p *parts) registrationInUse(ctx context.Context, object *quotav1alpha1.ResourceRegistration) (string, error) {
	users, err := registration.FindUsers(ctx, p.manager.GetAPIReader(), object)
	return users.Blocking(object), err
}

// grantsOf counts the grants in this control plane that a policy has made.
func (p *parts) grantsOf(ctx context.Context, policy *quotav1alpha1.GrantCreationPolicy) (int, error) {
	var list quotav1alpha1.ResourceGrantList
	err := p.manager.GetClient().List(ctx, &list, client.MatchingLabels{quotav1alpha1.LabelPolicyUID: string(policy.UID)}, client.UnsafeDisableDeepCopy)
	return len(list.Items), err
}
