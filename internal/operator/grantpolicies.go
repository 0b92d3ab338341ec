package operator

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
	"github.com/bursar/bursar/internal/controller/grantpolicy"
	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// markVerb is what the Bursar of another control plane has to be allowed to do with grants here, in
// order to mark them as a policy's.
const markVerb = "mark"

// newGrantPolicies makes the controller of the policies that make grants.
func (o *Operator) newGrantPolicies(m *models, log logr.Logger) (*grantpolicy.Controller, error) {
	objects, err := dynamic.NewForConfigAndClient(o.options.Config, o.httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a dynamic client: %w", err)
	}
	c := &grantpolicy.Controller{
		Client: m.manager.GetClient(), Live: m.manager.GetAPIReader(), Cache: m.manager.GetCache(),
		Objects: objects, Core: o.client, Kinds: m.kinds, Catalog: m.catalog, Permission: m.permission,
		Validate:        func(grant *quotav1alpha1.ResourceGrant) field.ErrorList { return validate.Grant(nil, grant) },
		Events:          m.events,
		SystemNamespace: o.options.SystemNamespace, CompareInterval: o.options.ControlPlaneInterval.Duration,
		Log: log.WithName("grantpolicy"),
	}
	c.Start()
	return c, nil
}

// mayMarkGrants asks the API server whether a user may mark the grants in a namespace.
func (o *Operator) mayMarkGrants(ctx context.Context, user authenticationv1.UserInfo, namespace string) (bool, error) {
	return o.may(ctx, user, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: markVerb, Group: quotav1alpha1.GroupName, Resource: "resourcegrants",
	})
}

// mayRead asks the API server whether a user may get the objects of a kind, in all namespaces. A kind that is not
// defined yet is asked about by the name that its resource has by convention.
func (o *Operator) mayRead(ctx context.Context, served *discoverycache.Cache, user authenticationv1.UserInfo, kind schema.GroupVersionKind) (bool, error) {
	resource, defined, err := served.DefinedResourceFor(ctx, kind)
	if err != nil {
		return false, err
	}
	if !defined {
		resource, _ = meta.UnsafeGuessKindToResource(kind)
	}
	return o.may(ctx, user, authorizationv1.ResourceAttributes{Verb: "get", Group: resource.Group, Version: resource.Version, Resource: resource.Resource})
}

// may asks the API server what a user may do.
func (o *Operator) may(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := o.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &what,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
