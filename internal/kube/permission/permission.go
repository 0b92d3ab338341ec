// Package permission finds out whether Bursar itself may follow the objects of a kind. The kinds of future policies are
// unknown when Bursar is installed, so administrators permit them one by one. Like all of kube it knows no quota, and
// any internal package may import it.
package permission

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// rememberedFor is how long an answer is cached: many policies name one kind.
	rememberedFor = 5 * time.Second
	// RecheckInterval is the delay before a missing permission is worth another check. No event reports new
	// permissions.
	RecheckInterval = 10 * time.Second
)

// followVerbs are the verbs to follow a kind: to watch its objects, and to read one if the watch may be behind.
var followVerbs = []string{"get", "list", "watch"}

// Reviews asks the API server for the permissions of the client, as the clientset's
// AuthorizationV1().SelfSubjectAccessReviews() does.
type Reviews interface {
	Create(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, options metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error)
}

// Checker answers from the API server. It is safe for concurrent use.
type Checker struct {
	reviews Reviews
	reasons *cache.Expiring // by verbs and resource, without its version
}

// New returns a Checker that asks reviews.
func New(reviews Reviews) *Checker {
	return &Checker{reviews: reviews, reasons: cache.NewExpiring()}
}

// Follow returns a sentence on why the objects of a resource may not be followed in all namespaces, for the status of a
// policy, or "". An error means that the answer is unknown.
func (c *Checker) Follow(ctx context.Context, resource schema.GroupVersionResource) (reason string, err error) {
	return c.check(ctx, followVerbs, resource)
}

// Get returns a sentence on why a single object of a resource may not be read, or "". An error means that the answer is
// unknown.
func (c *Checker) Get(ctx context.Context, resource schema.GroupVersionResource) (reason string, err error) {
	return c.check(ctx, []string{"get"}, resource)
}

func (c *Checker) check(ctx context.Context, verbs []string, resource schema.GroupVersionResource) (reason string, err error) {
	key := strings.Join(verbs, " ") + " " + resource.GroupResource().String()
	if known, ok := c.reasons.Get(key); ok {
		return known.(string), nil
	}
	var missing []string
	for _, verb := range verbs {
		allowed, err := c.may(ctx, verb, resource)
		if err != nil {
			return "", err
		}
		if !allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) > 0 {
		reason = explain(missing, verbs, resource.GroupResource())
	}
	c.reasons.Set(key, reason, rememberedFor)
	return reason, nil
}

func (c *Checker) may(ctx context.Context, verb string, resource schema.GroupVersionResource) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
		},
	}}
	answer, err := c.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("find out whether Bursar may %s %s: %w", verb, resource.GroupResource(), err)
	}
	return answer.Status.Allowed, nil
}

// explain names the missing verbs and the next step.
func explain(missing, verbs []string, resource schema.GroupResource) string {
	return fmt.Sprintf("Bursar may not %s %s; create a ClusterRole labelled %s=true that allows %s on %s in API group %q",
		strings.Join(missing, ", "), resource, quotav1alpha1.LabelAggregateToOperator, strings.Join(verbs, ", "), resource.Resource, resource.Group)
}
