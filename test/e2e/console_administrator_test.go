package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// markup is the text of a hostile user, in every field open to users.
const markup = `"><img src=x onerror=alert(1)><script>alert(2)</script>`

// browseAs is the browser of a user with a role of Bursar in the whole cluster, or in a namespace.
func (w *world) browseAs(role, namespace string) *browser {
	w.Helper()
	user := w.name + "-" + role
	w.bind(user, role, namespace)
	return browse(w.T, rest.ImpersonationConfig{UserName: user}, namespace)
}

// wantHarmless wants a page to show a hostile user's input as text.
func (b *browser) wantHarmless(path, page string) {
	b.Helper()
	for _, part := range []string{"<script>alert", "<img"} {
		if strings.Contains(page, part) {
			b.Errorf("GET %s: the page has the markup of a user:\n%s", path, page)
		}
	}
}

// A person without the right to see all consumers gets a sentence and no data, and no entry in the menu.
func TestConsoleAdministratorIsClosed(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 7)
	must(t, admin.Create(w.ctx, w.configMap("a")))
	w.wantBucket(7, 1, 6, 1)
	tenant := w.browseAs("bursar-tenant-viewer", w.name)
	for _, path := range []string{
		"/fleet", "/fleet?q=" + w.name, "/fleet/consumer?name=Organization." + w.consumer().APIGroup + "/" + w.name, "/policies", "/policies/" + w.name,
		"/policies/" + w.name + "?mode=Audit", "/caps", "/health",
	} {
		status, page := tenant.get(path)
		if status != http.StatusForbidden || !strings.Contains(page, "You may not") {
			t.Errorf("%s: %d, and no sentence:\n%s", path, status, page)
		}
		for _, data := range []string{w.resourceType(), "href=\"/console/fleet", "href=\"/console/policies", "href=\"/console/caps", "href=\"/console/health"} {
			if strings.Contains(page, data) {
				t.Errorf("%s: a tenant sees %q:\n%s", path, data, page)
			}
		}
	}
	before := w.browseAs("bursar-quota-manager", "")
	before.waitPage("/policies/"+w.name+"?mode=Audit", "You may not change policies")
	for _, link := range []string{"/console/fleet", "/console/policies", "/console/caps", "/console/health"} {
		before.waitPage("/fleet", `href="`+link+`"`)
	}
}

// A quota manager finds consumers by text, type and state, in an order. The page shows changes without another read of
// all consumers.
func TestConsoleFleet(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 10)
	manager := w.browseAs("bursar-quota-manager", "")
	mine := "/fleet?q=" + w.name
	manager.waitPage(mine, "Organization/"+w.name, w.resourceType(), "idle", "10 maps", "0%")
	if page := manager.wantPage(mine + "&state=over"); strings.Contains(page, "Organization/"+w.name) || !strings.Contains(page, "No consumer matches") {
		t.Errorf("an idle consumer is over its limit:\n%s", page)
	}
	for i := range 9 {
		must(t, admin.Create(w.ctx, w.configMap(fmt.Sprint("map-", i))))
	}
	manager.waitPage(mine+"&state=near", "Organization/"+w.name, "near limit", "90%", "9 maps")
	manager.waitPage("/fleet?state=near&type="+url.QueryEscape(w.resourceType()), "1 quota, page 1 of 1")
	if page := manager.wantPage("/fleet?type=" + url.QueryEscape(w.resourceType()) + "&q=Project/"); strings.Contains(page, "Organization/"+w.name) {
		t.Errorf("a consumer of another kind is found:\n%s", page)
	}
	must(t, namedAdmin(t, "tom").Create(w.ctx, w.newRequest("more", 30)))
	manager.waitPage(mine+"&state=waiting", "1 open request<")
	// The administrator lowers the limit below the use.
	change(t, &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: w.name}}, func(g *quotav1alpha1.ResourceGrant) {
		g.Spec.Allowances[0].Buckets[0].Amount = 5
	})
	manager.waitPage(mine+"&state=over", "over limit", "180%", "5 maps", "is-over")
	page := manager.wantPage("/fleet?sort=consumer&page=1", "page 1 of")
	if !strings.Contains(page, `data-live="/console/live?watch=`) || !strings.Contains(page, "bursar usage --all-namespaces --sort-by consumer --limit 50") {
		t.Errorf("the page is not live, or has no command:\n%s", page)
	}
	hostile := "/fleet?q=" + url.QueryEscape(markup) + "&type=" + url.QueryEscape(markup) + "&state=" + url.QueryEscape(markup) + "&sort=x&page=-3"
	manager.wantHarmless(hostile, manager.wantPage(hostile, "No consumer matches"))
}

// The rows of many consumers come in pages, each once.
func TestConsoleFleetPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const consumers = 53
	for i := range consumers {
		consumer := w.consumer()
		consumer.Name = fmt.Sprintf("%s-%02d", w.name, i)
		w.mustCreate(&quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("grant-", i), Namespace: w.name},
			Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: consumer, Allowances: []quotav1alpha1.Allowance{
				{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 1}}},
			}},
		})
	}
	manager := w.browseAs("bursar-quota-manager", "")
	first := manager.waitPage("/fleet?sort=consumer&q="+w.name, fmt.Sprintf("%d quotas, page 1 of 2", consumers), `rel="next"`)
	second := manager.wantPage("/fleet?sort=consumer&page=2&q="+w.name, "page 2 of 2", `rel="prev"`)
	for i := range consumers {
		name := fmt.Sprintf(">Organization/%s-%02d<", w.name, i)
		if isFirst, isSecond := strings.Contains(first, name), strings.Contains(second, name); isFirst != (i < 50) || isSecond != (i >= 50) {
			t.Errorf("%s: on the first page %t, on the second %t", name, isFirst, isSecond)
		}
	}
}

// The page of a consumer lists the sources of its limits: policies, requests with their ends, and other grants.
func TestConsoleConsumer(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustCreateGrantPolicy(nil)
	gold := w.configMap("gold")
	gold.Data = map[string]string{"tier": "gold"}
	w.mustCreate(gold)
	w.wantBucket(6, 1, 5, 1)
	request := w.newRequest("more", 8)
	request.Spec.Reason = markup
	until := metav1.NewTime(time.Date(2099, 3, 31, 0, 0, 0, 0, time.UTC))
	request.Spec.Until = &until
	must(t, namedAdmin(t, "tom").Create(w.ctx, request))
	w.waitState(request, quotav1alpha1.ReasonPending)
	must(t, namedAdmin(t, "ann").Create(w.ctx, w.newDecision(request, quotav1alpha1.DecisionApprove)))
	w.waitState(request, quotav1alpha1.ReasonApproved)
	manager := w.browseAs("bursar-quota-manager", "")
	path := "/fleet/consumer?name=" + url.QueryEscape(w.consumer().Kind+"."+w.consumer().APIGroup+"/"+w.name)
	page := manager.waitPage(path,
		fmt.Sprintf("8 maps = policy %s: 5 maps + request %s: 2 maps until 2099-03-31 00:00 UTC + grant base: 1 map", w.name, request.Name),
		"GrantCreationPolicy "+w.name+", for gold", "by ann", `href="/console/uses?consumer=`, `href="/console/history?consumer=`,
		"bursar usage --all-namespaces --consumer Organization/"+w.name, `data-label="Claims">1<`, "2099-03-31T00:00:00Z")
	manager.wantHarmless(path, page)
	manager.wantPage("/fleet/consumer?name=Organization/nobody-of-that-name", "This consumer has no quota.")
	hostile := "/fleet/consumer?name=" + url.QueryEscape(strings.ReplaceAll(markup, "/", ""))
	if status, page := manager.get(hostile); status != http.StatusNotFound {
		t.Errorf("no name of a consumer: %d", status)
	} else {
		manager.wantHarmless(hostile, page)
	}
	hostile = "/fleet/consumer?name=" + url.QueryEscape(markup) // KIND/NAME without a consumer
	manager.wantHarmless(hostile, manager.wantPage(hostile, "This consumer has no quota."))
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="(mode|uid|generation)" value="([^"]*)">`)

// previewed returns the hidden fields of a preview.
func previewed(page string) url.Values {
	fields := url.Values{}
	for _, match := range hiddenField.FindAllStringSubmatch(page, -1) {
		fields.Set(match[1], match[2])
	}
	return fields
}

// A platform administrator sees whom a policy would deny, and then changes its mode. The change needs the policy's
// name, and applies only to the previewed version of the policy.
func TestConsolePolicyMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 2)
	policy := w.policy(w.name, inMode(quotav1alpha1.EnforcementModeWarn))
	for _, name := range []string{"a", "b", "c"} {
		w.mustCreate(w.configMap(name))
	}
	w.wantBucket(2, 3, 0, 3)
	// Changing a policy needs the right to get the policy's objects: here ConfigMaps.
	w.bind(w.name+"-bursar-platform-admin", "view", "")
	browser := w.browseAs("bursar-platform-admin", "")
	page := "/policies/" + w.name
	browser.waitPage("/policies", page, "Warn", "ConfigMap (v1)")
	browser.waitPage(page, "Preview Enforce", "Preview Audit", w.resourceType(), "PolicyReady", "<strong>Warn</strong> (now)")
	preview := browser.waitPage(page+"?mode=Enforce", "From Warn to Enforce", "It would have denied 1 of the 3 objects", "Organization "+w.name, "3 maps", "over limit",
		"bursar policy backtest "+w.name, "enforcementMode&#34;:&#34;Enforce")
	mode := func() quotav1alpha1.EnforcementMode {
		must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(policy), policy))
		return policy.Spec.EnforcementMode
	}
	fields := previewed(preview)
	for _, confirm := range []string{"", "another", markup} {
		fields.Set("confirm", confirm)
		if status, answer := browser.send(page+"?mode=Enforce", page, fields); status != http.StatusUnprocessableEntity || !strings.Contains(answer, "Nothing was changed") || mode() != quotav1alpha1.EnforcementModeWarn {
			t.Fatalf("with %q as confirmation: %d, and the mode is %s\n%s", confirm, status, mode(), answer)
		}
	}
	change(t, policy, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Amount = 2
	})
	fields.Set("confirm", w.name)
	status, answer := browser.send(page+"?mode=Enforce", page, fields)
	if status != http.StatusConflict || !strings.Contains(answer, "Somebody changed ClaimCreationPolicy "+w.name) || mode() != quotav1alpha1.EnforcementModeWarn {
		t.Fatalf("with an old version: %d, and the mode is %s\n%s", status, mode(), answer)
	}
	fields = previewed(answer)
	fields.Set("confirm", w.name)
	status, answer = browser.send(page+"?mode=Enforce", page, fields)
	if status != http.StatusOK || !strings.Contains(answer, "has the mode Enforce now") || mode() != quotav1alpha1.EnforcementModeEnforce {
		t.Fatalf("confirmed: %d, and the mode is %s\n%s", status, mode(), answer)
	}
	eventually(t, func() error {
		if err := admin.Create(w.ctx, w.configMap("d"), client.DryRunAll); err == nil {
			return fmt.Errorf("a create beyond the limit passes")
		}
		return nil
	})
}

// A person with read access to policies gets a denial in words, even for a handmade form.
func TestConsolePolicyModeIsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := w.policy(w.name, inMode(quotav1alpha1.EnforcementModeWarn))
	manager := w.browseAs("bursar-quota-manager", "")
	page := "/policies/" + w.name
	if text := manager.waitPage(page+"?mode=Audit", "You may not change policies"); strings.Contains(text, `name="confirm"`) {
		t.Errorf("the page has a form that does not work:\n%s", text)
	}
	fields := url.Values{"mode": {"Audit"}, "confirm": {w.name}, "uid": {string(policy.UID)}, "generation": {fmt.Sprint(policy.Generation)}}
	if status, text := manager.send(page, page, fields); status != http.StatusForbidden || !strings.Contains(text, "nothing was changed") {
		t.Errorf("%d:\n%s", status, text)
	}
	fields.Set("mode", markup)
	status, text := manager.send(page, page, fields)
	if manager.wantHarmless(page, text); status != http.StatusUnprocessableEntity {
		t.Errorf("%d for a mode that does not exist", status)
	}
	if status, _ := manager.get("/policies/no-such-policy"); status != http.StatusNotFound {
		t.Errorf("%d for a policy that does not exist", status)
	}
}

// Caps show their allocated part. A namespace shows the sources of its ResourceQuota.
func TestConsoleCaps(t *testing.T) {
	w := newTeam(t, "web", "shop")
	w.allocation("", "count/secrets=100")
	must(t, w.give("web", "mine", "count/secrets=90"))
	roles := &world{T: t, ctx: t.Context(), name: w.name}
	manager := roles.browseAs("bursar-quota-manager", "")
	manager.waitPage("/caps", w.name, "count/secrets", "90%", w.in("web"), "no limit of count/secrets", `href="/console/caps/`+w.in("shop")+`"`, "You may not list all namespaces")
	manager.waitPage("/caps?namespace="+w.in("web"), "Namespace "+w.in("web"), "Cap "+w.name, "You may not see the ResourceQuotas")
	if status, page := manager.get("/caps/" + url.PathEscape(markup)); status != http.StatusUnprocessableEntity {
		t.Errorf("no name of a namespace: %d", status)
	} else {
		manager.wantHarmless("/caps/", page)
	}
	root := browse(t, rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}, "")
	root.waitPage("/caps/"+w.in("web"), "mine", "Made by hand", "90", "A ResourceQuota here may have")
	root.waitPage("/caps", "Namespaces without a ResourceQuota", `href="/console/caps/`+w.in("shop")+`"`)
}

// A namespace shows the sources of its ResourceQuota, and the increases in it.
func TestConsoleIncreases(t *testing.T) {
	w := newIncreased(t)
	w.config(w.definition("added", cumulative, "count/secrets=10"))
	w.increases()
	quota := w.wantQuota("added", "count/secrets=165", "count/configmaps=10")
	hostile := w.newIncrease("hostile", "count/pods=1")
	hostile.Annotations = map[string]string{openmcpv1alpha1.AnnotationToBeDeleted: markup}
	w.create(hostile)
	must(t, admin.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.name, Name: "by-hand", Annotations: map[string]string{openmcpv1alpha1.AnnotationComposition: "count/secrets: " + markup},
	}, Spec: corev1.ResourceQuotaSpec{Hard: list("count/secrets=500")}}))
	root := browse(t, rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}, "")
	page := root.waitPage("/caps/"+w.name, "165 = base 10 + big 100 + medium 50 + small 5", "Made by "+w.name+", definition added", "InEffect", "by-hand", quota.Name)
	root.wantHarmless("/caps/"+w.name, page)
	root.waitPage("/caps", w.name+": added", "cumulative")
	tenant := browse(t, rest.ImpersonationConfig{UserName: w.name + "-nobody"}, "")
	if status, page := tenant.get("/caps/" + w.name); status != http.StatusForbidden || strings.Contains(page, "165") {
		t.Errorf("somebody without rights: %d\n%s", status, page)
	}
}

// Health shows the contents of bursar status and the bypasses of enforcement, as far as the person may see them.
func TestConsoleHealth(t *testing.T) {
	w := newWorld(t)
	w.grant("base", 1)
	w.policy(w.name, nil)
	must(t, admin.Create(w.ctx, w.configMap("a")))
	jane, _ := adminWithWarnings(t, as("jane", quotav1alpha1.BreakGlassGroup))
	must(t, jane.Create(w.ctx, w.configMap("b")))
	root := browse(t, rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}, "")
	root.waitPage("/health", "webhooks", "Break-glass log", "ConfigMap "+w.name+"/b", "CREATE by jane", "bursar status")
	manager := w.browseAs("bursar-quota-manager", "")
	if page := manager.waitPage("/health", "You may not list the events", "webhooks"); strings.Contains(page, "CREATE by jane") {
		t.Errorf("who may not list events sees one:\n%s", page)
	}
}
