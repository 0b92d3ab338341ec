package discoverycache

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

const shop = "shop.example.com"

// answer is a discovery result. It counts its requests.
type answer struct {
	mu       sync.Mutex
	requests int
	groups   []*metav1.APIGroup
	lists    []*metav1.APIResourceList
	err      error
}

func (a *answer) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	return a.groups, a.lists, a.err
}

// serving is an answer with Carts at the given versions of the shop, the first being preferred.
func serving(versions ...string) *answer {
	a := &answer{}
	if len(versions) == 0 {
		return a
	}
	group := &metav1.APIGroup{Name: shop}
	for _, version := range versions {
		gv := shop + "/" + version
		// Discovery may list the preferred version anywhere.
		group.Versions = append([]metav1.GroupVersionForDiscovery{{GroupVersion: gv, Version: version}}, group.Versions...)
		a.lists = append([]*metav1.APIResourceList{{GroupVersion: gv, APIResources: []metav1.APIResource{
			{Name: "carts/status", Kind: "Cart"}, {Name: "carts", Kind: "Cart"},
		}}}, a.lists...)
	}
	group.PreferredVersion = metav1.GroupVersionForDiscovery{GroupVersion: shop + "/" + versions[0], Version: versions[0]}
	a.groups = []*metav1.APIGroup{group}
	return a
}

// failing is an answer without the shop.
func failing(err error) *answer {
	return &answer{err: &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: shop, Version: "v1"}: err}}}
}

var (
	errDown     = apierrors.NewServiceUnavailable("the server is restarting")
	errNotFound = apierrors.NewNotFound(schema.GroupResource{}, "")
)

func TestResolve(t *testing.T) {
	tests := map[string]struct {
		reason  string
		answers []*answer // in the order of the looks
		version string
		want    string // version and resource; empty if not served
		wantErr bool
	}{
		"preferred version":        {reason: "objects are watched at the version that the server prefers", answers: []*answer{serving("v2", "v1")}, want: "v2/carts"},
		"other version":            {reason: "a policy names its version", answers: []*answer{serving("v2", "v1")}, version: "v1", want: "v1/carts"},
		"version that is not":      {reason: "another version is no substitute", answers: []*answer{serving("v2")}, version: "v1"},
		"no such group":            {reason: "an answer without the group says that it is not served", answers: []*answer{serving()}},
		"gone":                     {reason: "a definition may be deleted", answers: []*answer{serving("v1"), serving()}},
		"gone while asked":         {reason: "not found is an answer", answers: []*answer{serving("v1"), failing(errNotFound)}},
		"down":                     {reason: "what is known stands while a server restarts", answers: []*answer{serving("v1"), failing(errDown)}, want: "v1/carts"},
		"down for long":            {reason: "and however often it is asked", answers: []*answer{serving("v1"), failing(errDown), failing(errDown)}, want: "v1/carts"},
		"down from the start":      {reason: "not knowing is not the same as not served", answers: []*answer{failing(errDown)}, wantErr: true},
		"new version while down":   {reason: "what was not known before cannot be told", answers: []*answer{serving("v1"), failing(errDown)}, version: "v2", wantErr: true},
		"down, then gone":          {reason: "an answer ends the doubt", answers: []*answer{serving("v1"), failing(errDown), serving()}},
		"no answer at all":         {reason: "without discovery nothing can be told", answers: []*answer{{err: errors.New("connection refused")}}, wantErr: true},
		"no answer after a change": {reason: "nor after a change", answers: []*answer{serving("v1"), {err: errors.New("connection refused")}}, wantErr: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := New(nil, nil)
			for _, k.discovery = range tt.answers {
				k.invalidate()
				_, _ = k.current()
				k.invalidate()
			}
			resource, served, err := k.VersionedResourceFor(t.Context(), schema.GroupVersionKind{Group: shop, Version: tt.version, Kind: "Cart"})
			if (err != nil) != tt.wantErr {
				t.Fatalf("%s: got error %v, want one: %t", tt.reason, err, tt.wantErr)
			}
			got := ""
			if served {
				got = resource.Version + "/" + resource.Resource
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestOneLookServesAll(t *testing.T) {
	a := serving("v1")
	k := New(a, nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, served, err := k.ResourceFor(t.Context(), schema.GroupKind{Group: shop, Kind: "Cart"}); !served || err != nil {
				t.Errorf("got served %t and error %v", served, err)
			}
		})
	}
	group.Wait()
	if a.requests != 1 {
		t.Errorf("discovery was asked %d times, want 1: what it said is kept", a.requests)
	}
}

func TestHandlersAreCalledForChangesOnly(t *testing.T) {
	k := New(nil, nil)
	calls := 0
	k.OnChange(func() { calls++ })
	var known *served
	for i, step := range []struct {
		reason string
		answer *answer
		want   int
	}{
		{"the first answer is news", serving("v1"), 1},
		{"the same is not", serving("v1"), 1},
		{"another version is", serving("v1", "v2"), 2},
		{"a group in doubt is: some may have to wait for it", failing(errDown), 3},
		{"the same doubt is not", failing(errDown), 3},
		{"its end is", serving("v1", "v2"), 4},
		{"an outage tells nothing", &answer{err: errors.New("connection refused")}, 4},
		{"so what follows is compared with what was told before", serving("v1", "v2"), 4},
	} {
		k.discovery = step.answer
		known = k.refresh(known)
		if calls != step.want {
			t.Fatalf("step %d: the handler was called %d times, want %d: %s", i, calls, step.want, step.reason)
		}
	}

	// The first caller after a change runs discovery; the handlers are called nevertheless.
	k.discovery = serving()
	k.invalidate()
	if _, err := k.current(); err != nil {
		t.Fatal(err)
	}
	if k.refresh(known); calls != 5 {
		t.Errorf("the handler was called %d times, want 5: another's look must not hide a change", calls)
	}
}

func TestBears(t *testing.T) {
	established := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	}
	tests := map[string]struct {
		reason string
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   bool
	}{
		"label":         {"labels are for people", func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels = map[string]string{"a": "b"} }, false},
		"generation":    {"the spec lists the versions", func(d *apiextensionsv1.CustomResourceDefinition) { d.Generation++ }, true},
		"established":   {"only then it is served", established, true},
		"accepted name": {"a name that was taken becomes free", func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.AcceptedNames.Kind = "Cart" }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := &apiextensionsv1.CustomResourceDefinition{}
			after := before.DeepCopy()
			tt.change(after)
			if got := affectsServed(before, after); got != tt.want {
				t.Errorf("got %t, want %t: %s", got, tt.want, tt.reason)
			}
		})
	}
}
