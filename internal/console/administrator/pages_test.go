package administrator

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/status"
	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
)

// hostile is a text that a user may put wherever an API lets them.
const hostile = `"><img src=x onerror=alert(1)><script>alert(2)</script>`

func newConsole(t testing.TB) *web.Console {
	t.Helper()
	c, err := web.New(session.NewStore(t.Context(), "", false), slog.New(slog.DiscardHandler), Area{Copies: &fleet.Copies{}, SystemNamespace: "bursar-system"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t testing.TB, c *web.Console, page web.Page) string {
	t.Helper()
	answer := httptest.NewRecorder()
	if err := c.WritePublic(answer, page); err != nil {
		t.Fatal(err)
	}
	return answer.Body.String()
}

// fleetOf is a page of rows of a consumer.
func fleetOf(consumer quotav1alpha1.ConsumerRef, text string, rows int) *fleetView {
	view := &fleetView{Query: fleet.Query{Text: text, ResourceType: text}, Failure: text}
	view.Result = fleet.Result{Total: rows, Page: 1, Pages: 2, All: rows, Types: []string{text}, HasRequests: true}
	for i := range rows {
		view.Result.Rows = append(view.Result.Rows, fleet.Found{Requests: i, Row: &fleet.Row{
			Usage: usage.Usage{Consumer: consumer, ResourceType: text, Used: int64(i), Limit: 10}, UsedText: text, LimitText: text, Percent: text,
		}})
	}
	view.complete()
	return view
}

// Pages show every name and message as text, whatever the API server lets through.
func TestHostileText(t *testing.T) {
	now := metav1.Now()
	consumer := quotav1alpha1.ConsumerRef{APIGroup: hostile, Kind: hostile, Namespace: hostile, Name: hostile}
	conditions := []metav1.Condition{{Type: hostile, Status: metav1.ConditionFalse, Reason: hostile, Message: hostile}}
	meta := metav1.ObjectMeta{Namespace: hostile, Name: hostile, Labels: map[string]string{
		quotav1alpha1.LabelPolicy: hostile, quotav1alpha1.LabelPolicyUID: hostile, quotav1alpha1.LabelSource: hostile,
	}, Annotations: map[string]string{quotav1alpha1.AnnotationChangedBy: hostile, quotav1alpha1.AnnotationResourceName: hostile}}
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: meta, Spec: quotav1alpha1.ClaimCreationPolicySpec{
		Trigger: quotav1alpha1.ClaimTrigger{
			Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: hostile, Kind: hostile},
			Conditions: []quotav1alpha1.ConditionExpression{{Expression: hostile}}, Operations: []quotav1alpha1.TriggerOperation{hostile},
		},
		Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{Spec: quotav1alpha1.ResourceClaimTemplateSpec{
			ConsumerRef: consumer, Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: hostile}},
		}}},
	}, Status: quotav1alpha1.ClaimCreationPolicyStatus{
		Conditions: conditions, Adoption: &quotav1alpha1.AdoptionStatus{Message: hostile, Progress: hostile, Failed: 1},
		Evaluation: &quotav1alpha1.EvaluationStatus{LastFailure: hostile, LastFailureReason: hostile, LastFailureTime: now, LastSuccessTime: &now},
	}}
	row := fleetOf(consumer, hostile, 1).Rows[0]
	change := &modeChange{Name: hostile, From: hostile, To: hostile, About: hostile, UID: hostile, MayChange: true, Problem: hostile, Command: hostile, Replay: &replay{
		Total: 2, Outcome: hostile,
		Denied:  []deniedView{{Object: hostile, Consumer: hostile, ConsumerURL: consumerURL(hostile), ResourceType: hostile, Requested: hostile, Used: hostile, Limit: hostile}},
		Lacking: []lackingView{{Consumer: hostile, ConsumerURL: consumerURL(hostile), ResourceType: hostile, Limit: hostile, Needed: hostile}},
	}, Full: []fullType{{ResourceType: hostile, Total: 2, Rows: []fleetRow{row}, MoreURL: consumerURL(hostile)}}}
	item := overview.ItemOf(&quotav1alpha1.EffectiveResourceGrant{
		ObjectMeta: meta, Spec: quotav1alpha1.EffectiveResourceGrantSpec{ConsumerRef: consumer, ResourceType: hostile},
		Status: quotav1alpha1.EffectiveResourceGrantStatus{TotalAllocated: 2, TotalLimit: 1},
	}, overview.Names{})
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: meta, Status: quotav1alpha1.ResourceGrantStatus{Gives: hostile, Conditions: conditions}}
	request := &quotav1alpha1.QuotaRequest{ObjectMeta: meta, Spec: quotav1alpha1.QuotaRequestSpec{
		Reason: hostile, Requester: &quotav1alpha1.RequestUser{Username: hostile},
	}, Status: quotav1alpha1.QuotaRequestStatus{Asks: hostile, Conditions: conditions}}
	amounts := corev1.ResourceList{hostile: resource.MustParse("1")}
	allocation := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: meta, Status: quotav1alpha1.ResourceQuotaAllocationStatus{
		Allocated: corev1.ResourceQuotaStatus{Hard: amounts, Used: amounts}, Conditions: conditions,
		UsedByProject:       []quotav1alpha1.NamespacedResourceList{{Namespace: hostile, Used: amounts}},
		UnlimitedNamespaces: []quotav1alpha1.UnlimitedNamespace{{Namespace: hostile, Resources: []corev1.ResourceName{hostile}}},
	}}
	c := newConsole(t)
	for name, page := range map[string]web.Page{
		"closed": closed(hostile, hostile),
		"fleet":  {Template: "administrator-fleet", Data: fleetOf(consumer, hostile, 3)},
		"consumer": {Template: "administrator-consumer", Data: &consumerView{
			Reference: hostile, Consumer: consumer, HistoryURL: consumerURL(hostile), Missing: []string{hostile},
			Quotas:   []quotaView{{Item: item, Bar: barOf(hostile, item.Usage, hostile, hostile), Composition: hostile, Claims: hostile, UsesURL: consumerURL(hostile), PastURL: consumerURL(hostile)}},
			Grants:   []grantView{grantViewOf(grant, time.Now())},
			Requests: []requestView{requestViewOf(request)},
		}},
		"policies": {Template: "administrator-policies", Data: &policiesView{Policies: []policyRow{policyRowOf(policy)}}},
		"policy":   policyPage(policy, change),
		"caps": {Template: "administrator-caps", Data: &capsView{
			Allocations: []allocationView{allocationViewOf(allocation)}, Missing: []string{hostile}, Unquoted: []namespaceLink{linkTo(hostile, hostile)}, Unlimited: 1,
			Definitions: []definitionView{{Config: hostile, Name: hostile, Mode: hostile, Hard: hostile, Problem: hostile}},
		}},
		"namespace": {Template: "administrator-namespace", Data: &namespaceView{
			Name: hostile, Base: hostile, Mode: hostile, Config: hostile, Use: hostile, Missing: []string{hostile},
			Quotas:    []resourceQuotaView{{Name: hostile, Definition: hostile, Amounts: amountsOf(amounts, amounts, map[corev1.ResourceName]string{hostile: hostile})}},
			Increases: []increaseView{{Name: hostile, Requested: hostile, Effect: hostile, State: hostile, Message: hostile, ToBeDeleted: hostile}},
			Caps:      []localCapView{{Name: hostile, Amounts: []localAmountView{{Resource: hostile, Here: hostile, All: hostile, Cap: hostile, Available: hostile}}}},
		}},
		"health": {Template: "administrator-health", Data: &healthView{
			Checks: []checkView{{Check: status.Check{Name: hostile, State: hostile, Text: hostile, Details: []string{hostile}}}}, Missing: hostile, Group: hostile,
			BrokenGlass: []glassView{{Object: hostile, Message: hostile}},
		}},
	} {
		text := write(t, c, page)
		if strings.Contains(text, "<img") || strings.Contains(text, "<script>") {
			t.Errorf("%s: the page has the markup of a user:\n%s", name, text)
		}
		if !strings.Contains(text, "alert(2)") {
			t.Errorf("%s: the page does not show what a user wrote:\n%s", name, text)
		}
		for _, forbidden := range []string{" style=", " onclick=", "javascript:", "ZgotmplZ"} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s: the page has %q:\n%s", name, forbidden, text)
			}
		}
	}
}

// Empty pages suggest the next step.
func TestEmptyPages(t *testing.T) {
	c := newConsole(t)
	for name, page := range map[string]web.Page{
		"fleet":     {Template: "administrator-fleet", Data: &fleetView{}},
		"consumer":  {Template: "administrator-consumer", Data: &consumerView{}},
		"policies":  {Template: "administrator-policies", Data: &policiesView{}},
		"caps":      {Template: "administrator-caps", Data: &capsView{}},
		"namespace": {Template: "administrator-namespace", Data: &namespaceView{}},
		"health":    {Template: "administrator-health", Data: &healthView{}},
	} {
		if text := write(t, c, page); !strings.Contains(text, `class="empty"`) {
			t.Errorf("%s: an empty page does not say what to do next:\n%s", name, text)
		}
	}
}

// A check that could not run is no success.
func TestHealthCountsChecks(t *testing.T) {
	c := newConsole(t)
	for want, view := range map[string]*healthView{
		"No check failed.</p>":                        {},
		"No check failed. 1 check could not run.</p>": {Unknown: 1},
		"1 of 1 check failed.":                        {Failed: 1, Checks: make([]checkView, 1)},
	} {
		if text := write(t, c, web.Page{Template: "administrator-health", Data: view}); !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}

func TestCompositionsIn(t *testing.T) {
	got := compositionsIn("count/configmaps: 10 = medium 10; count/secrets: 165 = base 10 + big 100 + 2 more...")
	if got["count/configmaps"] != "10 = medium 10" || got["count/secrets"] != "165 = base 10 + big 100 + 2 more..." || len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if len(compositionsIn("")) != 0 {
		t.Error("no annotation has a composition")
	}
}

func TestCommandFor(t *testing.T) {
	for _, tt := range []struct {
		reason string
		query  fleet.Query
		want   string
	}{
		{"all", fleet.Query{}, "bursar usage --all-namespaces --limit 50"},
		{"each filter that the command has", fleet.Query{ResourceType: "shop/maps", State: fleet.Near, Order: fleet.ByType}, "bursar usage --all-namespaces --type shop/maps --near=80 --sort-by type --limit 50"},
		{"the rows of the pages before come first", fleet.Query{Page: 3}, "bursar usage --all-namespaces --limit 150"},
		{"a shell does not read a type", fleet.Query{ResourceType: "a; rm -rf /"}, "bursar usage --all-namespaces --type 'a; rm -rf /' --limit 50"},
		{"no command finds a part of a name", fleet.Query{Text: "acme"}, ""},
		{"no command selects what is over its limit only", fleet.Query{State: fleet.Over}, ""},
		{"no command sorts by the least use", fleet.Query{Order: fleet.ByLeastUse}, ""},
	} {
		if got := commandFor(tt.query); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
		}
	}
}

// The page of 50 rows, without the search for them. See also the benchmark of package fleet.
func BenchmarkFleetPage(b *testing.B) {
	c := newConsole(b)
	consumer := quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "customer-00001"}
	for b.Loop() {
		page := web.Page{Template: "administrator-fleet", Title: "Fleet", Data: fleetOf(consumer, "compute.example.com/vcpus", fleet.PageSize)}
		if err := c.WritePublic(httptest.NewRecorder(), page); err != nil {
			b.Fatal(err)
		}
	}
}
