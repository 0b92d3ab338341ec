package permission

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// answers allows some verbs on carts, and counts its requests.
type answers struct {
	allowed  map[string]bool
	err      error
	requests int
}

func (a *answers) Create(_ context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	a.requests++
	attributes := review.Spec.ResourceAttributes
	review.Status.Allowed = a.allowed[attributes.Verb] && attributes.Resource == "carts" && attributes.Group == "shop.example.com" &&
		attributes.Namespace == "" && attributes.Name == ""
	return review, a.err
}

var carts = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "carts"}

func TestFollow(t *testing.T) {
	const todo = "; create a ClusterRole labelled quota.miloapis.com/aggregate-to-operator=true that allows get, list, watch on "
	tests := map[string]struct {
		reason   string
		allowed  map[string]bool
		resource schema.GroupVersionResource
		want     string
	}{
		"all":     {"nothing is missing", map[string]bool{"get": true, "list": true, "watch": true}, carts, ""},
		"nothing": {"a new kind", nil, carts, `Bursar may not get, list, watch carts.shop.example.com` + todo + `carts in API group "shop.example.com"`},
		"part": {"a rule that is too narrow", map[string]bool{"get": true, "list": true}, carts,
			`Bursar may not watch carts.shop.example.com` + todo + `carts in API group "shop.example.com"`},
		"core": {"the core group has no name", nil, schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			`Bursar may not get, list, watch pods` + todo + `pods in API group ""`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := New(&answers{allowed: tt.allowed}).Follow(t.Context(), tt.resource)
			if err != nil || got != tt.want {
				t.Errorf("%s: got %q, error %v; want %q", tt.reason, got, err, tt.want)
			}
		})
	}
}

// A read of single objects needs no watch. The two questions have separate answers.
func TestGet(t *testing.T) {
	c := New(&answers{allowed: map[string]bool{"get": true}})
	if problem, err := c.Follow(t.Context(), carts); problem == "" || err != nil {
		t.Errorf("got reason %q, error %v; want that carts may not be watched", problem, err)
	}
	if problem, err := c.Get(t.Context(), carts); problem != "" || err != nil {
		t.Errorf("got reason %q, error %v; want none", problem, err)
	}
}

func TestFollowAsksOnceForManyPolicies(t *testing.T) {
	a := &answers{}
	c := New(a)
	later := carts
	later.Version = "v2"
	for _, resource := range []schema.GroupVersionResource{carts, carts, later} {
		if problem, err := c.Follow(t.Context(), resource); problem == "" || err != nil {
			t.Fatalf("got reason %q, error %v", problem, err)
		}
	}
	if a.requests != len(followVerbs) {
		t.Errorf("the API server was asked %d times, want once for each verb", a.requests)
	}
}

// An error is neither permission nor the lack of it, and the next question asks again.
func TestFollowUnknown(t *testing.T) {
	a := &answers{allowed: map[string]bool{"get": true, "list": true, "watch": true}, err: errors.New("the API server is restarting")}
	c := New(a)
	if problem, err := c.Follow(t.Context(), carts); problem != "" || err == nil {
		t.Errorf("got reason %q, error %v; want an error alone", problem, err)
	}
	a.err = nil
	if problem, err := c.Follow(t.Context(), carts); problem != "" || err != nil {
		t.Errorf("got reason %q, error %v; want neither", problem, err)
	}
}
