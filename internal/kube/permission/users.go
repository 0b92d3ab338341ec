package permission

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// UserReviews asks the API server for the permissions of a user, as the clientset's
// AuthorizationV1().SubjectAccessReviews() does.
type UserReviews interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, options metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Users checks the permissions of other users than Bursar. It is safe for concurrent use if its fields are.
type Users struct {
	Reviews UserReviews
	Kinds   discoverycache.DefinedResolver
}

// May asks the API server for a permission of a user. An error means that the answer is unknown.
func (u *Users) May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := u.Reviews.Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &what,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// MayRead asks the API server whether a user may get the objects of a kind, in all namespaces. For an undefined kind it
// uses the conventional name of the resource. An error means that the answer is unknown.
func (u *Users) MayRead(ctx context.Context, user authenticationv1.UserInfo, kind schema.GroupVersionKind) (bool, error) {
	resource, defined, err := u.Kinds.DefinedResourceFor(ctx, kind)
	if err != nil {
		return false, err
	}
	if !defined {
		resource, _ = meta.UnsafeGuessKindToResource(kind)
	}
	return u.May(ctx, user, authorizationv1.ResourceAttributes{Verb: "get", Group: resource.Group, Version: resource.Version, Resource: resource.Resource})
}
