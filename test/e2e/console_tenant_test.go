package e2e

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// projectWorld is a world with a Project as its consumer. The namespace of the project's name shows its quota.
type projectWorld struct {
	*world
	// viewer sees the namespace with the role bursar-tenant-viewer, and no other.
	viewer string
}

func (w *projectWorld) project() quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Name: w.name}
}

// reference names the project in the URLs of the console.
func (w *projectWorld) reference() string {
	return url.QueryEscape("Project.resourcemanager.miloapis.com/" + w.name)
}

// register registers a resource type of projects.
func (w *projectWorld) register(resourceType string, change func(*quotav1alpha1.ResourceRegistration)) {
	w.Helper()
	registration := w.registration(resourceType)
	registration.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: w.project().APIGroup, Kind: w.project().Kind}
	if change != nil {
		change(registration)
	}
	w.mustCreate(registration)
	w.waitCondition(registration, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
}

// newProjectWorld makes a project with a limit on ConfigMaps.
func newProjectWorld(t *testing.T, limit int64) *projectWorld {
	t.Helper()
	name := nameOf(t)
	w := &projectWorld{world: &world{T: t, ctx: t.Context(), name: name}, viewer: name + "-viewer"}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.register(w.resourceType(), nil)
	w.give("base", w.resourceType(), limit)
	w.policy(name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = w.project()
	})
	w.bind(w.viewer, "bursar-tenant-viewer", name)
	w.waitMay(w.viewer, attributesOf("resourceclaims.quota.miloapis.com", "list", name))
	return w
}

// give grants the project an amount.
func (w *projectWorld) give(name, resourceType string, amount int64) *quotav1alpha1.ResourceGrant {
	w.Helper()
	grant := &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: w.project(),
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
		},
	}
	w.mustCreate(grant)
	w.waitCondition(grant, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	return grant
}

// ask makes a claim of the project, as a service does.
func (w *projectWorld) ask(name, resourceType string, amount int64) *quotav1alpha1.ResourceClaim {
	w.Helper()
	claim := w.claim(name, amount)
	claim.Spec.ConsumerRef, claim.Spec.Requests[0].ResourceType = w.project(), resourceType
	w.mustCreate(claim)
	return claim
}

// browse opens a console as a user.
func (w *projectWorld) browse(user, namespace string) *browser {
	w.Helper()
	return browse(w.T, rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}, namespace)
}

// wantLacks wants a page without some texts.
func (b *browser) wantLacks(page string, texts ...string) {
	b.Helper()
	for _, text := range texts {
		if strings.Contains(page, text) {
			b.Errorf("the page has %q:\n%s", text, page)
		}
	}
}

// A tenant sees the quota of its own namespace: the usage, the rest, and the end of each temporary part.
func TestConsoleTenantQuota(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 4)
	more := w.give("more", w.resourceType(), 2)
	change(t, more, func(g *quotav1alpha1.ResourceGrant) {
		g.Spec.NotAfter = &metav1.Time{Time: metav1.Now().AddDate(1, 0, 0)}
	})
	ends := more.Spec.NotAfter.UTC().Format("2006-01-02 15:04 MST")
	for _, name := range []string{"a", "b", "c"} {
		w.mustCreate(w.configMap(name))
	}
	b := w.browse(w.viewer, w.name)
	page := b.waitPage("/quota", "<strong>3 maps</strong> of 6 maps used (50%)", "3 maps left", `aria-label="50% used"`, "2 maps of the limit end at", ends, "configmaps")
	b.wantLacks(page, "There is more", "Without quota", "All namespaces")
	if !strings.Contains(page, "bursar usage -n "+w.name) {
		t.Errorf("the page has no command of its own:\n%s", page)
	}
	if !strings.Contains(page, `data-live="/console/live?watch=`+w.name+`%2Feffectiveresourcegrants%2F`) {
		t.Errorf("the page watches nothing:\n%s", page)
	}
	b.waitPage("/quota/trend?consumer="+w.reference(), `<svg class="trend"`, "Use grew by 3 maps in the last 7 days.</p>", `<a href="/console/quota?`)
	w.mustCreate(w.configMap("d"))
	w.mustCreate(w.configMap("e"))
	b.waitPage("/quota", "Near the limit: 1 map left", `class="used is-near"`)
	w.mustDelete(more)
	b.waitPage("/quota", "1 map more than the limit", `class="used is-over"`)
}

// A person gets a sentence instead of a page beyond their permissions, and no page of another namespace.
func TestConsoleTenantSeesOwnOnly(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 4)
	other := "kube-system"
	b := w.browse(w.viewer, w.name)
	for _, path := range []string{"/quota", "/uses", "/waiting", "/quota/trend"} {
		b.wantPage(path+"?namespace="+other, "You may not see", "bursar-tenant-viewer")
	}
	b.wantPage("/history?namespace="+other+"&consumer="+w.reference(), "The history cannot be shown")
	nowhere := w.browse(w.viewer, "")
	for _, path := range []string{"/quota", "/uses", "/waiting", "/history", "/quota/trend"} {
		nowhere.wantPage(path, "Choose a namespace", `<input name="namespace"`)
	}
	for _, query := range []string{"namespace=Not%20one", "consumer=web", "consumer=" + strings.Repeat("x", 500), "page=-1", "since=soon", "since=2999-01-01"} {
		path := map[string]string{"page": "/uses", "since": "/history"}[strings.Split(query, "=")[0]]
		if path == "" {
			path = "/quota"
		}
		if status, page := b.get(path + "?" + query); status != http.StatusUnprocessableEntity {
			t.Errorf("%s?%s: %d, want 422\n%s", path, query, status, page)
		}
	}
}

// A limit of 0 differs from an uncounted type. An administrator sees both, even without any quota yet.
func TestConsoleTenantZeroAndUnmetered(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 4)
	w.register(w.name+"/counted", nil)
	w.policy(w.name+"-counted", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions[0].Expression = "false"
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = w.project()
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = w.name + "/counted"
	})
	w.register(w.name+"/free", nil)
	w.register(w.name+"/zero", nil)
	w.ask("waits", w.name+"/zero", 2)
	b := w.browse(w.viewer, w.name)
	page := b.waitPage("/quota", `title="`+w.name+`/zero"`, "Nothing is granted")
	b.wantLacks(page, "Not metered", "Without quota")
	w.bind(w.name+"-admin", "bursar-platform-admin", "")
	w.waitMay(w.name+"-admin", attributesOf("claimcreationpolicies.quota.miloapis.com", "list", ""))
	administrator := w.browse(w.name+"-admin", "")
	page = administrator.waitPage("/quota?consumer="+w.reference(), "Without quota", `title="`+w.name+`/counted"`, `title="`+w.name+`/free"`)
	for resourceType, want := range map[string]string{"counted": "Nothing is granted", "free": "Not metered"} {
		_, row, _ := strings.Cut(page, `title="`+w.name+"/"+resourceType+`"`)
		if row, _, _ = strings.Cut(row, "</tr>"); !strings.Contains(row, want) {
			t.Errorf("%s is %s, want %s", resourceType, row, want)
		}
	}
}

// The objects that use quota come in pages, with links between them.
func TestConsoleTenantUses(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 200)
	const number = 60
	for i := range number {
		w.mustCreate(w.configMap(fmt.Sprintf("map-%02d", i)))
	}
	w.ask("large", w.resourceType(), 7)
	b := w.browse(w.viewer, w.name)
	first := b.waitPage("/uses", "1 to 50 of 61 objects and claims, the latest first", "Next page", "bursar usage --claims -n "+w.name)
	b.wantLacks(first, "Previous page")
	second := b.wantPage("/uses?page=2", "51 to 61 of 61 objects and claims", "Previous page", "ConfigMap map-")
	b.wantLacks(second, "Next page")
	seen := 0
	for i := range number {
		if name := fmt.Sprintf("ConfigMap map-%02d<", i); strings.Contains(first, name) != strings.Contains(second, name) {
			seen++
		}
	}
	if seen != number {
		t.Errorf("%d of %d ConfigMaps are on one of two pages", seen, number)
	}
	page := b.wantPage("/uses?type=configmaps", "the largest first")
	if large, small := strings.Index(page, "ConfigMap large"), strings.Index(page, "ConfigMap map-"); large < 0 || large > small {
		t.Errorf("the largest claim is not the first:\n%s", page)
	}
	b.wantPage("/uses?type=nothing", "Nothing uses quota here")
	b.wantPage("/uses?page=9", "Nothing uses quota here")
}

// Claims wait in the order of their creation, and the page gives their shortfall.
func TestConsoleTenantWaiting(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 3)
	w.waitCondition(w.ask("first", w.resourceType(), 5), quotav1alpha1.ConditionGranted, metav1.ConditionFalse)
	w.waitCondition(w.ask("second", w.resourceType(), 4), quotav1alpha1.ConditionGranted, metav1.ConditionFalse)
	w.mustCreate(w.configMap("a"))
	b := w.browse(w.viewer, w.name)
	page := b.waitPage("/waiting", `<div class="over">3 maps`, `<div class="over">2 maps`, "5 maps", "exceeded quota", "Claims of other namespaces may stand before them",
		"/console/requests/new?amount=%2B3&#43;maps&amp;consumer=Project%2F"+w.name)
	if first, second := strings.Index(page, "ConfigMap first"), strings.Index(page, "ConfigMap second"); first < 0 || first > second {
		t.Errorf("the first claim is not the first:\n%s", page)
	}
	b.wantLacks(page, "ConfigMap a<")
	w.give("more", w.resourceType(), 10)
	b.waitPage("/waiting", "Nothing waits")
}

// The console tries a manifest as the person. A denied document leads to a request.
func TestConsoleTenantTry(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 1)
	w.bind(w.viewer, "edit", w.name)
	w.waitMay(w.viewer, attributesOf("configmaps", "create", w.name))
	b := w.browse(w.viewer, w.name)
	b.waitPage("/quota", "0 maps")
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# second\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n---\nkind: [\n"
	status, page := b.send("/try", "/try", url.Values{"namespace": {w.name}, "manifest": {manifest}})
	if status != http.StatusOK {
		t.Fatalf("the manifest: %d\n%s", status, page)
	}
	for _, text := range []string{
		"ConfigMap " + w.name + "/a", "Fits", "Does not fit", `<p class="problem" role="status">1 of 2 would be denied.`, "exceeded quota", "&#43;2 maps", "Line 10:",
		"/console/requests/new?amount=%2B1&#43;map&amp;consumer=Project%2F" + w.name, "bursar plan -f manifest.yaml -n " + w.name, "# second",
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the result has no %q:\n%s", text, page)
		}
	}
	var maps corev1.ConfigMapList
	if must(t, admin.List(w.ctx, &maps, client.InNamespace(w.name))); len(maps.Items) > 1 { // the one with the cluster's certificate may be there
		t.Errorf("trying created %d ConfigMaps", len(maps.Items))
	}
	for reason, fields := range map[string]url.Values{
		"Enter a manifest":                {"namespace": {w.name}, "manifest": {" "}},
		"not a valid name of a namespace": {"namespace": {"No!"}, "manifest": {manifest}},
		"could not be read":               {"namespace": {w.name}, "manifest": {"a: [\n"}},
		"apiVersion or kind":              {"namespace": {w.name}, "manifest": {"metadata: {name: x}\n"}},
		"at most 100 are read":            {"namespace": {w.name}, "manifest": {strings.Repeat("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n---\n", 101)}},
		"not text in UTF-8":               {"namespace": {w.name}, "manifest": {"\xff\xfe"}},
		"Nothing was tried: ":             {"namespace": {"kube-system"}, "manifest": {manifest}, "as-is": {"yes"}},
	} {
		if status, page := b.send("/try", "/try", fields); status != http.StatusUnprocessableEntity || !strings.Contains(page, reason) {
			t.Errorf("%s: %d\n%s", reason, status, page)
		}
	}
	status, page = b.upload("/try", map[string]string{"namespace": w.name}, "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n")
	if status != http.StatusOK || !strings.Contains(page, "ConfigMap "+w.name+"/c") {
		t.Errorf("an uploaded list: %d\n%s", status, page)
	}
	if status, page = b.upload("/try", map[string]string{"namespace": w.name}, strings.Repeat("# large\n", 300_000)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a file that is too large: %d\n%s", status, page)
	}
}

// upload sends a form with a file.
func (b *browser) upload(path string, fields map[string]string, content string) (status int, page string) {
	b.Helper()
	match := csrfField.FindStringSubmatch(b.wantPage(path))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	must(b, form.WriteField("csrf", match[1]))
	for name, value := range fields {
		must(b, form.WriteField(name, value))
	}
	file, err := form.CreateFormFile("file", "manifest.yaml")
	must(b, err)
	_, err = file.Write([]byte(content))
	must(b, err)
	must(b, form.Close())
	response, err := b.client.Post(b.base+"/console"+path, form.FormDataContentType(), &body)
	must(b, err)
	return b.read(response)
}

// The history has the changes of the limit and of the usage. Tenants do not see their authors.
func TestConsoleTenantHistory(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 2)
	w.mustCreate(w.configMap("a"))
	w.give("more", w.resourceType(), 3)
	b := w.browse(w.viewer, w.name)
	page := b.waitPage("/history?since=1d", "raised from 2 maps to 5 maps", w.name+"/more", "ConfigMap "+w.name+"/a", "&#43;1 map", "not shown", `<svg class="trend"`, "admitted",
		"bursar history -n "+w.name+" --since 1d", `<option value="1d" selected>`)
	b.wantLacks(page, "by admin")
	b.wantPage("/history?type=nothing", "Nothing has changed in this time")
	w.bind(w.name+"-auditor", "bursar-journal-reader", "")
	w.waitMay(w.name+"-auditor", attributesOf("consumerledgers.quota.miloapis.com", "list", ""))
	auditor := w.browse(w.name+"-auditor", w.name)
	auditor.waitPage("/history?consumer="+w.reference(), "<td data-label=\"By\">admin</td>")
}

// Tenants see the names for people in a registration, without the right to read registrations.
func TestConsoleTenantDisplayName(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 2)
	w.mustCreate(w.configMap("a"))
	b := w.browse(w.viewer, w.name)
	b.wantLacks(b.waitPage("/quota", "1 map left"), "Settings of applications")
	for _, name := range []string{"Settings of applications", "Configuration"} {
		registration := w.registration(w.resourceType())
		change(t, registration, func(r *quotav1alpha1.ResourceRegistration) {
			r.Annotations = map[string]string{quotav1alpha1.AnnotationDisplayName: name, quotav1alpha1.AnnotationDescription: "What is " + name}
			r.Labels = map[string]string{quotav1alpha1.LabelOwner: strings.ToLower(name[:5]) + ".example.com"}
		})
		for _, page := range []string{"/quota", "/uses", "/history?since=1d"} {
			b.waitPage(page, name)
		}
		b.waitPage("/quota", "What is "+name, "Part of "+registration.Labels[quotav1alpha1.LabelOwner])
	}
}

// Input of a tenant or a link is text, never markup.
func TestConsoleTenantMarkup(t *testing.T) {
	t.Parallel()
	w := newProjectWorld(t, 2)
	const script, image = `<script>alert(1)</script>`, `"><img/src=x/onerror=alert(1)>`
	hostile := w.name + `/` + image
	w.register(hostile, func(r *quotav1alpha1.ResourceRegistration) {
		r.Name = w.name + "-hostile"
		r.Spec.Description, r.Spec.DisplayUnit, r.Spec.BaseUnit = script, "<b>unit", "<i>base"
		r.Annotations = map[string]string{"kubernetes.io/display-name": script}
	})
	w.give("hostile", hostile, 3)
	claim := w.claim("hostile", 1)
	claim.Spec.ConsumerRef, claim.Spec.Requests[0].ResourceType = w.project(), hostile
	claim.Spec.ResourceRef.Kind, claim.Spec.ResourceRef.Name = "ConfigMap", script
	if err := admin.Create(w.ctx, claim); err != nil {
		claim.Spec.ResourceRef.Name = "hostile" // the API server checks names of objects
		w.mustCreate(claim)
	} else {
		w.cleanUp(claim)
	}
	big := w.ask("big", hostile, 9)
	w.waitCondition(big, quotav1alpha1.ConditionGranted, metav1.ConditionFalse)
	w.bind(w.viewer, "bursar-platform-admin", "") // sees descriptions and names
	w.waitMay(w.viewer, attributesOf("resourceregistrations.quota.miloapis.com", "list", ""))
	b := w.browse(w.viewer, w.name)
	escape := url.QueryEscape
	b.waitPage("/quota?namespace="+w.name, "&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;b&gt;unit")
	for _, path := range []string{
		"/quota?namespace=" + w.name, "/quota?consumer=" + escape("Project/"+script), "/quota/trend?namespace=" + w.name, "/uses?namespace=" + w.name,
		"/uses?type=" + escape(image), "/waiting?namespace=" + w.name, "/history?namespace=" + w.name, "/history?since=1d&type=" + escape(script),
		"/try?namespace=" + escape(image), "/history?since=" + escape(script), "/uses?page=" + escape(script), "/quota?namespace=" + escape(script),
	} {
		_, page := b.get(path)
		b.wantLacks(page, script, "<img/src", "<b>unit", "<i>base")
	}
	_, page := b.send("/try", "/try", url.Values{"namespace": {w.name}, "manifest": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '" + script + "'}\n# </textarea>" + script + "\n---\n" + image + ": [\n"}})
	b.wantLacks(page, script, "<img/src")
}
