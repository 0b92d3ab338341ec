package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

// wantViews waits until the views of the world's consumer show these amounts, in the order of the objects' names.
func (w *world) wantViews(amounts map[string]int64) []quotav1alpha1.ResourceClaim {
	w.Helper()
	var views []quotav1alpha1.ResourceClaim
	eventually(w, func() error {
		views = w.claims()
		got := map[string]int64{}
		for i := range views {
			if views[i].Labels[quotav1alpha1.LabelView] != "true" || claimcache.HasFinalizer(&views[i]) || claimcache.StateOf(&views[i]) != claimcache.Granted {
				return fmt.Errorf("claim %s is no granted view: %+v", views[i].Name, views[i].ObjectMeta)
			}
			got[views[i].Spec.ResourceRef.Name] += views[i].Spec.Requests[0].Amount
		}
		if fmt.Sprint(got) != fmt.Sprint(amounts) || len(views) != len(amounts) {
			return fmt.Errorf("%d views show %v, want %v", len(views), got, amounts)
		}
		return nil
	})
	slices.SortFunc(views, func(a, b quotav1alpha1.ResourceClaim) int {
		return strings.Compare(a.Spec.ResourceRef.Name, b.Spec.ResourceRef.Name)
	})
	return views
}

func TestViewsFollowTheirObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	w.mustCreate(w.sized("a", 1)) // before the policy
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) { costs(p); reviewsUpdates(p) })
	w.mustCreate(w.sized("b", 2))
	views := w.wantViews(map[string]int64{"a": 1, "b": 2})
	if owners := views[0].OwnerReferences; len(owners) != 1 || owners[0].Name != "a" {
		t.Errorf("the owners of the view are %+v, want the object", owners)
	}

	must(t, w.setSize("b", 5))
	after := w.wantViews(map[string]int64{"a": 1, "b": 5})
	if after[1].UID != views[1].UID {
		t.Error("the view was replaced, want the same one with another amount")
	}

	w.mustDelete(w.configMap("b"))
	w.wantViews(map[string]int64{"a": 1})
	w.wantBucket(10, 1, 9, 1)
}

// A view in another namespace has no owner, and goes with its object all the same.
func TestViewsElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	elsewhere := w.name + "-claims"
	w.policy(w.name, w.claimsIn(elsewhere))
	w.mustCreate(w.configMap("a"))
	if views := w.wantViews(map[string]int64{"a": 1}); views[0].Namespace != elsewhere || len(views[0].OwnerReferences) > 0 {
		t.Errorf("the view is in namespace %s with the owners %+v", views[0].Namespace, views[0].OwnerReferences)
	}
	w.mustDelete(w.configMap("a"))
	w.wantViews(map[string]int64{})
}

func TestViewsGoWithTheirPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	policy := w.policy(w.name, nil)
	w.mustCreate(w.configMap("a"))
	w.wantViews(map[string]int64{"a": 1})
	w.mustDelete(policy)
	w.wantViews(map[string]int64{})
}

// Whether objects have views may change at any time, and changes nothing about what counts.
func TestViewsComeAndGoWithTheMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	policy := w.countedPolicy(nil)
	w.mustCreate(w.configMap("a"))
	w.wantBucket(10, 1, 9, 1)
	for range 2 {
		change(t, policy, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Claims = quotav1alpha1.ClaimsModeObjects })
		w.wantViews(map[string]int64{"a": 1})
		change(t, policy, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Claims = quotav1alpha1.ClaimsModeNone })
		w.wantViews(map[string]int64{})
		w.wantBucket(10, 1, 9, 1)
	}
}

// A view shows who pays now.
func TestViewOfAnotherConsumer(t *testing.T) {
	t.Parallel()
	const label = "example.com/owner"
	w := newWorld(t)
	w.grant("base", 5)
	setOwner := func(owner string) {
		change(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, func(n *corev1.Namespace) {
			metav1.SetMetaDataLabel(&n.ObjectMeta, label, owner)
		})
	}
	setOwner(w.name)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{index .namespaceObject.metadata.labels "` + label + `"}}`
	})
	w.mustCreate(w.configMap("a"))
	before := w.wantViews(map[string]int64{"a": 1})[0]

	setOwner(w.name + "-heir")
	heir := *w
	heir.name = w.name + "-heir"
	after := heir.wantViews(map[string]int64{"a": 1})[0]
	if after.Name != before.Name || after.Namespace != before.Namespace {
		t.Errorf("the view is %s/%s, want it as before in %s/%s", after.Namespace, after.Name, before.Namespace, before.Name)
	}
	w.wantViews(map[string]int64{})
}

// The name of a view may be taken by another claim.
func TestViewWithATakenName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	taken := w.claim("view-a", 1)
	w.mustCreate(taken)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "view-{{.trigger.metadata.name}}"
	})
	object := w.configMap("a")
	w.mustCreate(object)
	eventually(w, func() error {
		for _, claim := range w.claims() {
			if types.UID(claim.Annotations[quotav1alpha1.AnnotationResourceUID]) == object.UID {
				return nil
			}
		}
		return fmt.Errorf("the object has no view")
	})
	w.wantBucket(10, 2, 8, 2)
}
