package grantpolicy

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

func object(namespace, name string, uid types.UID) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("example.com/v1")
	o.SetKind("Team")
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(uid)
	return o
}

func completed(grant *quotav1alpha1.ResourceGrant, policy string, o *unstructured.Unstructured, ref remote.Ref) *quotav1alpha1.ResourceGrant {
	complete(grant, &quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy, UID: "p1"}}, o, "system", ref)
	return grant
}

// here and west are control planes.
var here, west = remote.Ref{}, remote.Ref{Group: "example.com", Kind: "Cluster", Name: "west"}

func TestWhereAGrantIs(t *testing.T) {
	for name, tc := range map[string]struct {
		reason        string
		namespace     string // of the template
		object        string // namespace of the object
		plane         remote.Ref
		wantNamespace string
		wantOwned     bool
	}{
		"beside":         {"by default a grant is beside its object, which owns it", "", "web", here, "web", true},
		"given":          {"a template may say so", "web", "web", here, "web", true},
		"elsewhere":      {"an object owns nothing in other namespaces", "db", "web", here, "db", false},
		"cluster":        {"what has no namespace owns things in all", "", "", here, "system", true},
		"cluster, given": {"wherever they are", "db", "", here, "db", true},
		"parent":         {"but not in another control plane", "", "web", west, "web", false},
		"parent cluster": {"where the owner does not exist", "", "", west, "system", false},
	} {
		t.Run(name, func(t *testing.T) {
			grant := completed(&quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: tc.namespace}}, "p", object(tc.object, "a", "u1"), tc.plane)
			if grant.Namespace != tc.wantNamespace || (len(grant.OwnerReferences) == 1) != tc.wantOwned {
				t.Errorf("%s: got namespace %q and owners %v, want %q, owned %t", tc.reason, grant.Namespace, grant.OwnerReferences, tc.wantNamespace, tc.wantOwned)
			}
		})
	}
}

func TestGeneratedNames(t *testing.T) {
	name := func(prefix, policy string, uid types.UID) string {
		return completed(&quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, policy, object("", "a", uid), here).Name
	}
	if a, b := name("g-", "p", "u1"), name("g-", "p", "u1"); a != b || !strings.HasPrefix(a, "g-") || len(a) == len("g-") {
		t.Errorf("got %q and %q, want one completed name", a, b)
	}
	for what, other := range map[string]string{"policy": name("g-", "q", "u1"), "object": name("g-", "p", "u2")} {
		if other == name("g-", "p", "u1") {
			t.Errorf("another %s has the same name %q", what, other)
		}
	}
}

func TestMarks(t *testing.T) {
	long := strings.Repeat("long.", 20)
	grant := completed(&quotav1alpha1.ResourceGrant{}, long, object("", "a", "u1"), here)
	if got := grant.Labels[quotav1alpha1.LabelSource]; len(got) > 63 || got != grant.Labels[quotav1alpha1.LabelPolicy] {
		t.Errorf("got the source %q and the policy %q, want both to fit", got, grant.Labels[quotav1alpha1.LabelPolicy])
	}
	own := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{quotav1alpha1.LabelSource: "tiers"}}}
	if got := completed(own, "p", object("", "a", "u1"), here).Labels[quotav1alpha1.LabelSource]; got != "tiers" {
		t.Errorf("got the source %q, want that of the template", got)
	}
}

func TestCorrected(t *testing.T) {
	desired := completed(&quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "g", Labels: map[string]string{"tier": "gold"}, Annotations: map[string]string{"note": "n"}},
		Spec:       quotav1alpha1.ResourceGrantSpec{Allowances: []quotav1alpha1.Allowance{{ResourceType: "t", Buckets: []quotav1alpha1.Bucket{{Amount: 5}}}}},
	}, "p", object("", "a", "u1"), here)
	made := created(desired, time.Unix(1000, 0))
	if _, differs := corrected(made, desired); differs {
		t.Error("a grant that was just made is said to differ")
	}
	for name, tc := range map[string]struct {
		reason string
		spoil  func(*quotav1alpha1.ResourceGrant)
		kept   func(*quotav1alpha1.ResourceGrant) // the remaining part of it
	}{
		"amount":    {"amounts are the policy's", func(g *quotav1alpha1.ResourceGrant) { g.Spec.Allowances[0].Buckets[0].Amount = 9 }, nil},
		"label":     {"as are the labels of the template", func(g *quotav1alpha1.ResourceGrant) { g.Labels["tier"] = "silver" }, nil},
		"mark":      {"and Bursar's", func(g *quotav1alpha1.ResourceGrant) { delete(g.Labels, quotav1alpha1.LabelPolicyUID) }, nil},
		"all marks": {"all of them", func(g *quotav1alpha1.ResourceGrant) { g.Labels = nil }, nil},
		"owner":     {"and the owner", func(g *quotav1alpha1.ResourceGrant) { g.OwnerReferences = nil }, nil},
		"other owner": {"other owners stay",
			func(g *quotav1alpha1.ResourceGrant) { g.OwnerReferences = []metav1.OwnerReference{{UID: "x"}} },
			func(g *quotav1alpha1.ResourceGrant) {
				g.OwnerReferences = append([]metav1.OwnerReference{{UID: "x"}}, g.OwnerReferences...)
			}},
		"other controller": {"there can be one alone",
			func(g *quotav1alpha1.ResourceGrant) {
				g.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: new(true)}}
			},
			func(g *quotav1alpha1.ResourceGrant) {
				g.OwnerReferences[0].Controller = new(false)
				g.OwnerReferences = append([]metav1.OwnerReference{{UID: "x", Controller: new(true)}}, g.OwnerReferences...)
			}},
		"former label": {"what an earlier template has set goes",
			func(g *quotav1alpha1.ResourceGrant) {
				g.Labels["old"] = "x"
				g.Annotations[quotav1alpha1.AnnotationTemplateKeys] = `{"labels":["old","tier"],"annotations":["note"]}`
			}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			stored, want := made.DeepCopy(), made.DeepCopy()
			tc.spoil(stored)
			if tc.kept != nil {
				tc.kept(want)
			}
			got, differs := corrected(stored, desired)
			if !differs {
				t.Errorf("%s: the difference was not seen", tc.reason)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	others := made.DeepCopy()
	others.Labels["team"], others.Annotations["team"], others.Finalizers = "x", "x", []string{"example.com/x"}
	if got, differs := corrected(others, desired); differs {
		t.Errorf("what others have added is said to differ:\n%s", cmp.Diff(others, got))
	}
}

func TestWhoseGrant(t *testing.T) {
	k := key{"p1", "u1"}
	made := completed(&quotav1alpha1.ResourceGrant{}, "p", object("", "a", "u1"), here)
	for name, tc := range map[string]struct {
		reason string
		change func(*quotav1alpha1.ResourceGrant)
		want   bool
	}{
		"ours":         {"it has all marks", func(*quotav1alpha1.ResourceGrant) {}, true},
		"no label":     {"the object's UID is enough", func(g *quotav1alpha1.ResourceGrant) { g.Labels = nil }, true},
		"no UID":       {"as is the policy's", func(g *quotav1alpha1.ResourceGrant) { g.Annotations = nil }, true},
		"a person's":   {"no marks", func(g *quotav1alpha1.ResourceGrant) { g.Labels, g.Annotations = nil, nil }, false},
		"other policy": {"another policy's", func(g *quotav1alpha1.ResourceGrant) { g.Labels[quotav1alpha1.LabelPolicyUID] = "p2" }, false},
		"other object": {"another object's", func(g *quotav1alpha1.ResourceGrant) { g.Annotations[quotav1alpha1.AnnotationResourceUID] = "u2" }, false},
		"claim's marks": {"something else that refers to the object", func(g *quotav1alpha1.ResourceGrant) {
			g.Labels = nil
			delete(g.Annotations, quotav1alpha1.AnnotationCreatedBy)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			grant := made.DeepCopy()
			tc.change(grant)
			if got := k.isOf(grant); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestInventory(t *testing.T) {
	grant := func(name string, uid types.UID, policy string) *quotav1alpha1.ResourceGrant {
		return &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: uid, Labels: map[string]string{quotav1alpha1.LabelPolicyUID: policy},
			Annotations: map[string]string{quotav1alpha1.AnnotationResourceUID: "u1"},
		}}
	}
	i := newInventory(here)
	i.put(grant("a", "1", "p1"))
	i.put(grant("b", "2", "p1"))
	if got := i.put(grant("a", "1", "p2")); !cmp.Equal(got, []key{{"p1", "u1"}, {"p2", "u1"}}, cmp.AllowUnexported(key{})) {
		t.Errorf("a grant that changes hands concerns %v, want both", got)
	}
	if _, ok := i.remove(types.NamespacedName{Name: "a"}, "0"); ok {
		t.Error("the grant that had the name before was removed again")
	}
	if len(i.byKey[key{"p1", "u1"}]) != 1 || len(i.byPolicy["p2"]) != 1 {
		t.Errorf("got %v, want a grant of each policy", i.byKey)
	}
	i.remove(types.NamespacedName{Name: "a"}, "1")
	i.put(grant("b", "2", ""))
	if len(i.byKey)+len(i.byName)+len(i.byPolicy) != 0 {
		t.Errorf("got %v, %v, %v, want nothing left", maps.Clone(i.byKey), i.byName, i.byPolicy)
	}
}

// Two registrations may reach one API server, even this one. Each has its own grants.
func TestInventoriesOfOneServer(t *testing.T) {
	east := remote.Ref{Group: "example.com", Kind: "Cluster", Name: "east"}
	grant := completed(&quotav1alpha1.ResourceGrant{}, "p", object("", "a", "u1"), west)
	for _, ref := range []remote.Ref{here, west, east} {
		i := newInventory(ref)
		i.put(grant)
		if has := len(i.byKey) > 0; has != (ref == west) {
			t.Errorf("the inventory of %s has the grant: %t", ref, has)
		}
	}
	i := newInventory(west)
	i.put(grant)
	i.put(completed(grant.DeepCopy(), "p", object("", "a", "u1"), east))
	if len(i.byKey)+len(i.byName) > 0 {
		t.Errorf("got %v, want nothing left of a grant that was given to another", i.byKey)
	}
}
