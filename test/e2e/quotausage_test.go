package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// payer is the label with the project that pays for a ConfigMap.
const payer = "example.com/payer"

// usageWorld has two projects whose ConfigMaps count without claims. The first one has a map of 5 and one of 2 in its
// own namespace, a map of 4 in another namespace, and a claim of a service over 3. A map of 3 in the other namespace is
// the second project's.
type usageWorld struct {
	*projectWorld
	other  string // the other namespace
	policy *quotav1alpha1.ClaimCreationPolicy
	// neighbor sees the other namespace only, and stranger nothing.
	neighbor, stranger string
}

func newUsageWorld(t *testing.T) *usageWorld {
	t.Helper()
	name := nameOf(t)
	w := &usageWorld{
		projectWorld: &projectWorld{world: &world{T: t, ctx: t.Context(), name: name}, viewer: name + "-viewer"},
		other:        name + "-other", neighbor: name + "-neighbor", stranger: name + "-stranger",
	}
	for _, namespace := range []string{name, w.other, w.second().Name} {
		w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	w.register(w.resourceType(), nil)
	w.give("base", w.resourceType(), 20)
	w.policy = w.projectWorld.policy(name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		costs(p)
		p.Spec.Claims = quotav1alpha1.ClaimsModeNone
		p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeEnforce
		p.Spec.Trigger.Conditions[0].Expression = fmt.Sprintf("trigger.metadata.namespace in [%q, %q] && has(trigger.metadata.labels)", name, w.other)
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = w.project()
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{index .trigger.metadata.labels "` + payer + `"}}`
	})
	rich := w.give("rich", w.resourceType(), 1)
	change(t, rich, func(g *quotav1alpha1.ResourceGrant) {
		g.Spec.ConsumerRef = w.second()
		g.Spec.Allowances[0].Buckets[0].Amount = 10
	})
	w.mustCreate(w.paid(name, "big", w.project(), 5))
	w.mustCreate(w.paid(name, "small", w.project(), 2))
	w.mustCreate(w.paid(w.other, "far", w.project(), 4))
	eventually(t, func() error { return admin.Create(w.ctx, w.paid(w.other, "foreign", w.second(), 3)) })
	claimed := w.ask("claimed", w.resourceType(), 3)
	w.waitCondition(claimed, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)

	w.bind(w.viewer, "edit", name)
	w.bind(w.neighbor, "bursar-tenant-viewer", w.other)
	w.waitMay(w.viewer, attributesOf("quotausages.quota.miloapis.com", "create", name))
	w.waitMay(w.neighbor, attributesOf("quotausages.quota.miloapis.com", "create", w.other))
	return w
}

// second is the project whose objects are nobody's business in the first one.
func (w *usageWorld) second() quotav1alpha1.ConsumerRef {
	second := w.project()
	second.Name = w.name + "-second"
	return second
}

// paid is a ConfigMap that costs a project an amount.
func (w *usageWorld) paid(namespace, name string, by quotav1alpha1.ConsumerRef, amount int) *corev1.ConfigMap {
	object := w.sized(name, amount)
	object.Namespace, object.Labels = namespace, map[string]string{payer: by.Name}
	return object
}

// ask asks as a user, in a namespace.
func (w *usageWorld) askUsage(user, namespace string, spec quotav1alpha1.QuotaUsageSpec) (*quotav1alpha1.QuotaUsageStatus, error) {
	w.Helper()
	api, err := started.As(rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}})
	must(w, err)
	usage := &quotav1alpha1.QuotaUsage{ObjectMeta: metav1.ObjectMeta{GenerateName: "u-", Namespace: namespace}, Spec: spec}
	err = api.Create(w.ctx, usage, client.DryRunAll)
	return usage.Status, err
}

// textOf has the objects of an answer with their amounts, in order, and the hidden ones.
func textOf(status *quotav1alpha1.QuotaUsageStatus) string {
	var texts []string
	for i := range status.Objects {
		o := &status.Objects[i]
		texts = append(texts, fmt.Sprintf("%s=%d", o.ResourceRef.Name, o.Amounts[0].Amount))
	}
	text := strings.Join(texts, " ")
	if hidden := status.Hidden; hidden != nil {
		text += fmt.Sprintf(" hidden %d=%d", hidden.Objects, hidden.Amounts[0].Amount)
	}
	return text
}

// Each person sees the objects in namespaces where they may see claims. Only people who may see the figures of the
// consumer see the sums of the others.
func TestQuotaUsageShowsWhatOneMaySee(t *testing.T) {
	t.Parallel()
	w := newUsageWorld(t)
	w.bind(w.name+"-admin", "bursar-platform-admin", "")
	w.waitMay(w.name+"-admin", attributesOf("consumerledgers.quota.miloapis.com", "get", ""))
	w.bind(w.name+"-approver", "bursar-quota-approver", "")
	w.waitMay(w.name+"-approver", attributesOf("resourceclaims.quota.miloapis.com", "get", ""))
	first, second := w.project(), w.second()
	ofType := quotav1alpha1.QuotaUsageSpec{ResourceType: w.resourceType()}
	of := func(consumer *quotav1alpha1.ConsumerRef, namespace string) quotav1alpha1.QuotaUsageSpec {
		spec := ofType
		spec.ConsumerRef, spec.Namespace = consumer, namespace
		return spec
	}
	object := func(namespace, name string) quotav1alpha1.QuotaUsageSpec {
		return quotav1alpha1.QuotaUsageSpec{ResourceRef: &quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Namespace: namespace, Name: name}}
	}
	nobody := w.second()
	nobody.Name += "-nobody"
	const forbidden = "forbidden"
	for name, tt := range map[string]struct {
		reason, user, namespace string
		spec                    quotav1alpha1.QuotaUsageSpec
		want                    string
	}{
		"Owner":             {"sees its namespace, and sums", w.viewer, w.name, of(&first, ""), "big=5 small=2 hidden 1=4"},
		"OwnerNamespace":    {"sees its namespace", w.viewer, w.name, of(nil, w.name), "big=5 small=2"},
		"OwnerObject":       {"sees its object", w.viewer, w.name, object(w.name, "big"), "big=5"},
		"OwnerOther":        {"may not see its objects elsewhere", w.viewer, w.name, of(&first, w.other), forbidden},
		"OwnerOtherObject":  {"may not see its object elsewhere", w.viewer, w.name, object(w.other, "far"), forbidden},
		"OwnerSecond":       {"may not see the other project", w.viewer, w.name, of(&second, ""), forbidden},
		"OwnerSecondHere":   {"the other project has nothing here", w.viewer, w.name, of(&second, w.name), ""},
		"OwnerNobody":       {"learns nothing about names", w.viewer, w.name, of(&nobody, ""), forbidden},
		"OwnerAll":          {"may not ask about all", w.viewer, w.name, ofType, forbidden},
		"Neighbor":          {"sees what is in its namespace, whoever pays", w.neighbor, w.other, of(nil, w.other), "far=4 foreign=3"},
		"NeighborOfFirst":   {"selects a payer", w.neighbor, w.other, of(&first, w.other), "far=4"},
		"NeighborConsumer":  {"may not see the project", w.neighbor, w.other, of(&first, ""), forbidden},
		"NeighborElsewhere": {"may not ask elsewhere", w.neighbor, w.name, of(nil, w.other), forbidden},
		"Stranger":          {"may not ask", w.stranger, w.other, of(nil, w.other), forbidden},
		"Administrator":     {"sees all", w.name + "-admin", w.name, of(&first, ""), "big=5 far=4 small=2"},
		"AdministratorAll":  {"sees the objects of all consumers", w.name + "-admin", "default", ofType, "big=5 far=4 foreign=3 small=2"},
		"Approver":          {"sees all claims", w.name + "-approver", "default", ofType, "big=5 far=4 foreign=3 small=2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &usageWorld{&projectWorld{&world{t, t.Context(), w.name}, w.viewer}, w.other, w.policy, w.neighbor, w.stranger}
			eventually(t, func() error {
				status, err := w.askUsage(tt.user, tt.namespace, tt.spec)
				got := forbidden
				if err == nil {
					got = textOf(status)
				} else if !apierrors.IsForbidden(err) {
					return err
				}
				if got != tt.want {
					return fmt.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
				}
				return nil
			})
		})
	}
	t.Run("DenialsAreEqual", func(t *testing.T) {
		_, ofSecond := w.askUsage(w.viewer, w.name, of(&second, ""))
		_, ofNobody := w.askUsage(w.viewer, w.name, of(&nobody, ""))
		if a, b := strings.ReplaceAll(ofSecond.Error(), second.Name, "X"), strings.ReplaceAll(ofNobody.Error(), nobody.Name, "X"); a != b {
			t.Errorf("a project that exists is denied as %q, and one that does not as %q", a, b)
		}
	})
	t.Run("Pages", (&usageWorld{w.projectWorld, w.other, w.policy, w.neighbor, w.stranger}).testPages)
}

// testPages reads the pages of the owner. A token names nothing that the owner may not see.
func (w *usageWorld) testPages(t *testing.T) {
	first := w.project()
	spec := quotav1alpha1.QuotaUsageSpec{ConsumerRef: &first, ResourceType: w.resourceType(), Limit: 1}
	page, err := w.askUsage(w.viewer, w.name, spec)
	must(t, err)
	if got := textOf(page); got != "big=5 hidden 1=4" || page.Remaining != 1 || page.Continue == "" {
		t.Fatalf("the first page is %q, with %d remaining and the token %q", got, page.Remaining, page.Continue)
	}
	token, err := base64.RawURLEncoding.DecodeString(page.Continue)
	must(t, err)
	if strings.Contains(string(token), "far") || !strings.Contains(string(token), "big") {
		t.Errorf("the token is %s, want it to name only the last visible object", token)
	}
	spec.Continue, spec.Limit = page.Continue, 500
	page, err = w.askUsage(w.viewer, w.name, spec)
	must(t, err)
	if got := textOf(page); got != "small=2 hidden 1=4" || page.Remaining != 0 || page.Continue != "" {
		t.Errorf("the last page is %q, with %d remaining and the token %q", got, page.Remaining, page.Continue)
	}
	for reason, change := range map[string]func(*quotav1alpha1.QuotaUsageSpec){
		"a token of another question": func(s *quotav1alpha1.QuotaUsageSpec) { s.ResourceType = "" },
		"no token":                    func(s *quotav1alpha1.QuotaUsageSpec) { s.Continue = "broken" },
		"a large limit":               func(s *quotav1alpha1.QuotaUsageSpec) { s.Limit = quotav1alpha1.UsageLimitMax + 1 },
		"an object and a namespace": func(s *quotav1alpha1.QuotaUsageSpec) {
			s.Continue, s.Namespace, s.ResourceRef = "", w.name, &quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "big"}
		},
	} {
		changed := spec
		change(&changed)
		if _, err := w.askUsage(w.viewer, w.name, changed); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: got %v, want it to be rejected", reason, err)
		}
	}
	usage := &quotav1alpha1.QuotaUsage{ObjectMeta: metav1.ObjectMeta{GenerateName: "u-", Namespace: w.name}}
	if err := admin.Create(t.Context(), usage); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "--dry-run=server") {
		t.Errorf("got %v, want a create without dry run to be rejected", err)
	}
}

// The commands list objects that count and claims together, the largest first, each person what they may see.
func TestCommandsShowCountedObjects(t *testing.T) {
	t.Parallel()
	w := newUsageWorld(t)
	project := "project/" + w.name
	ann := newPerson(t, "ann")
	owner := newPersonIn(t, w.viewer, "system:authenticated", w.name)
	neighbor := newPersonIn(t, w.neighbor, "system:authenticated", w.other)
	eventually(t, func() error { return wantPrinted(ann, "14 maps", "usage", "--consumer", project) })

	all := w.name + "/ConfigMap/big"
	inOrder(t, ann.want(true, nil, "usage", "--claims", "--consumer", project), all, w.other+"/ConfigMap/far", w.name+"/claimed", w.name+"/ConfigMap/small")
	inOrder(t, ann.want(true, nil, "who", w.resourceType()), w.name+"/ConfigMap/big", w.other+"/ConfigMap/far", w.other+"/ConfigMap/foreign", "ConfigMap/claimed", w.name+"/ConfigMap/small")
	inOrder(t, ann.want(true, nil, "tree", project), w.name+"/ConfigMap/big", w.other+"/ConfigMap/far", "ConfigMap/claimed", w.name+"/ConfigMap/small")
	ann.want(true, []string{"ConfigMap big in namespace " + w.name + " holds 5 maps; ConfigMap far in namespace " + w.other + " holds 4 maps", "1 more holds the rest"},
		"why", "configmap/small", "-n", w.name)

	printed := owner.want(true, []string{w.name + "/ConfigMap/big", "Not shown to you: 1 object that counts, with configmaps=4 maps."}, "usage", "--claims")
	printed += owner.want(true, []string{w.name + "/ConfigMap/small", "1 consumer uses more through other objects, not shown here."}, "who", "configmaps")
	printed += owner.want(true, []string{"other objects, not shown here", w.name + "/ConfigMap/big"}, "tree")
	printed += owner.want(true, []string{"Project " + w.name + " pays, by ClaimCreationPolicy " + w.name + ": granted", "ConfigMap big in namespace " + w.name + " holds 5 maps", "1 more holds the rest"},
		"why", "configmap/small")
	for _, hidden := range []string{"far", "foreign", w.other} {
		if strings.Contains(printed, hidden) {
			t.Errorf("the owner reads %s in\n%s", hidden, printed)
		}
	}

	printed = neighbor.want(true, []string{"Project/" + w.name, w.other + "/ConfigMap/far", w.other + "/ConfigMap/foreign"}, "usage", "--claims")
	if strings.Contains(printed, "big") || strings.Contains(printed, "Not shown") {
		t.Errorf("a neighbor learns more than its namespace:\n%s", printed)
	}
	stranger := newPersonIn(t, w.stranger, "system:authenticated", w.name)
	stranger.want(false, []string{"you may not see the quota in namespace " + w.name}, "usage", "--claims")
}

// inOrder wants texts in a page, one after the other.
func inOrder(t *testing.T, page string, texts ...string) {
	t.Helper()
	rest := page
	for _, text := range texts {
		at := strings.Index(rest, text)
		if at < 0 {
			t.Errorf("the page lacks %q at its place:\n%s", text, page)
			return
		}
		rest = rest[at+len(text):]
	}
}

// An object with a view is there once, with the claim beside it.
func TestCommandsShowViewedObjectsOnce(t *testing.T) {
	t.Parallel()
	w := newUsageWorld(t)
	change(t, w.policy, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Claims = quotav1alpha1.ClaimsModeObjects })
	ann := newPerson(t, "ann")
	project := "project/" + w.name
	var printed string
	eventually(t, func() error {
		printed, _ = ann.run("", "usage", "--claims", "--consumer", project)
		for _, name := range []string{"big", "small"} {
			if view := w.name + "/" + w.name + "-" + name; !strings.Contains(printed, view) {
				return fmt.Errorf("there is no %s in\n%s", view, printed)
			}
		}
		return nil
	})
	for _, name := range []string{"big", "small", "far"} {
		if count := strings.Count(printed, "ConfigMap/"+name); count != 1 {
			t.Errorf("%s is there %d times:\n%s", name, count, printed)
		}
	}
	printed = ann.want(true, nil, "who", w.resourceType(), "--consumer", project)
	if count := strings.Count(printed, "ConfigMap/"); count != 4 {
		t.Errorf("who has %d rows, want 4:\n%s", count, printed)
	}
	w.browse(w.viewer, w.name).waitPage("/uses?type="+w.resourceType(), "1 to 3 of 3 objects and claims, the largest first")
}

// Without the right to ask, a sentence says that objects without a claim are missing, and the claims are listed.
func TestCommandsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newUsageWorld(t)
	user := w.name + "-old"
	w.mustCreate(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{quotav1alpha1.GroupName}, Resources: []string{"effectiveresourcegrants", "resourceclaims"}, Verbs: []string{"get", "list"}},
	}})
	w.bind(user, user, w.name)
	w.waitMay(user, attributesOf("resourceclaims.quota.miloapis.com", "list", w.name))
	old := newPersonIn(t, user, "system:authenticated", w.name)
	const missing = "Objects that count without a claim are missing here: you may not create QuotaUsages in namespace "
	eventually(t, func() error { return wantPrinted(old, w.name+"/claimed", "usage", "--claims") })
	old.want(true, []string{w.name + "/claimed", missing + w.name}, "usage", "--claims")
	old.want(true, []string{"ConfigMap/claimed", missing}, "who", "configmaps")
	w.browse(user, w.name).waitPage("/uses", "ConfigMap claimed", missing)
}

// The console shows the same list, and a denial names the largest that its reader may see.
func TestConsoleAndDenialsShowCountedObjects(t *testing.T) {
	t.Parallel()
	w := newUsageWorld(t)
	owner := w.browse(w.viewer, w.name)
	page := owner.waitPage("/uses?consumer="+w.reference()+"&type=configmaps", "1 to 3 of 3 objects and claims, the largest first", "1 object that you may not see uses 4 maps of")
	inOrder(t, page, "ConfigMap big", "ConfigMap claimed", "ConfigMap small")
	owner.wantLacks(page, "far", "foreign", w.other)
	page = owner.wantPage("/uses", "1 to 3 of 3 objects and claims, the latest first")
	inOrder(t, page, "ConfigMap claimed", "ConfigMap")
	owner.wantPage("/uses?namespace="+w.other, "You may not see")

	page = w.browse(w.neighbor, w.other).waitPage("/uses", "ConfigMap far", "ConfigMap foreign", "1 to 2 of 2")
	owner.wantLacks(page, "ConfigMap big", "you may not see use")
	w.bind(w.name+"-admin", "bursar-platform-admin", "")
	w.waitMay(w.name+"-admin", attributesOf("consumerledgers.quota.miloapis.com", "get", ""))
	page = w.browse(w.name+"-admin", "").waitPage("/uses?consumer="+w.reference()+"&type="+w.resourceType(), "1 to 4 of 4 objects and claims")
	inOrder(t, page, "ConfigMap big", "ConfigMap far", "in namespace "+w.other, "ConfigMap claimed", "ConfigMap small")

	api, err := started.As(rest.ImpersonationConfig{UserName: w.viewer, Groups: []string{"system:authenticated"}})
	must(t, err)
	err = api.Create(w.ctx, w.paid(w.name, "more", w.project(), 7))
	if err == nil || !strings.Contains(err.Error(), "ConfigMap "+w.name+"/big") || strings.Contains(err.Error(), "far") {
		t.Errorf("the denial is %v, want it to name the largest object in the namespace", err)
	}
	err = admin.Create(w.ctx, w.paid(w.name, "more", w.project(), 7))
	if names := []string{w.name + "/big", w.other + "/far", w.name + "/claimed"}; err == nil || slices.ContainsFunc(names, func(n string) bool { return !strings.Contains(err.Error(), n) }) {
		t.Errorf("the denial is %v, want the three largest of all", err)
	}
}

// The console pages through more objects than a page has, each on one page.
func TestConsolePagesOfCountedObjects(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 200)
	change(t, &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Claims = quotav1alpha1.ClaimsModeNone
	})
	const number = 120
	want := map[string]bool{}
	for i := range number {
		name := fmt.Sprintf("map-%03d", i)
		w.mustCreate(w.configMap(name))
		want["ConfigMap "+name+"<"] = true
	}
	b := w.browse(w.viewer, w.name)
	pages := []string{b.waitPage("/uses?type=configmaps", "1 to 50 of 120", "Next page")}
	pages = append(pages, b.wantPage("/uses?type=configmaps&page=2", "51 to 100 of 120", "Previous page"), b.wantPage("/uses?type=configmaps&page=3", "101 to 120 of 120"))
	for name := range maps.Clone(want) {
		if on := slices.IndexFunc(pages, func(page string) bool { return strings.Contains(page, name) }); on < 0 || strings.Count(strings.Join(pages, ""), name) != 1 {
			t.Errorf("%s is not on exactly one page", name)
		}
	}
	b.wantLacks(pages[2], "Next page")
}
