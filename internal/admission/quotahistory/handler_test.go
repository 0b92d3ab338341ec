package quotahistory_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/naming"
)

func TestEveryFieldIsShown(t *testing.T) {
	opened := journal.Entry{Consumer: acme, Sequence: 1, Time: begin, Kind: journal.Opened, Opening: &journal.Opening{
		Lost: 2, Limits: []journal.Limit{{ResourceType: "shop/maps", Grant: "shop/base", Amount: 100}},
		Balances: []journal.Balance{{ResourceType: "shop/maps", Dimensions: map[string]string{"region": "eu"}, Amount: 1}},
	}}
	limit := journal.Entry{
		Consumer: acme, Sequence: 3, Time: begin.Add(3 * time.Minute), Kind: journal.LimitChanged, ResourceType: "shop/maps",
		Dimensions: map[string]string{"region": "eu"}, Change: -5, Used: 2, Limit: 95, Grant: "shop/base", Actor: "bob",
	}
	q := question{source: &memory{entries: []journal.Entry{opened, admitted(2), limit}}, permissions: may(everything), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
	want := &quotav1alpha1.QuotaHistoryStatus{Entries: []quotav1alpha1.JournalEntry{
		{Time: metav1.NewMicroTime(begin), Sequence: 1, Kind: quotav1alpha1.JournalEntryOpened, Opening: &quotav1alpha1.JournalOpening{
			Lost: 2, Limits: []quotav1alpha1.JournalLimit{{ResourceType: "shop/maps", Grant: "shop/base", Amount: 100}},
			Balances: []quotav1alpha1.JournalBalance{{ResourceType: "shop/maps", Dimensions: map[string]string{"region": "eu"}, Amount: 1}},
		}},
		{
			Time: metav1.NewMicroTime(begin.Add(2 * time.Minute)), Sequence: 2, Kind: quotav1alpha1.JournalEntryAdmitted, ResourceType: "shop/maps",
			Change: 1, Used: 2, Limit: 100, Claim: "shop/maps-2", Policy: "maps", Actor: "alice",
			Object: &quotav1alpha1.JournalObject{Kind: "ConfigMap", Namespace: "shop", Name: "m2", UID: "u2"},
		},
		{
			Time: metav1.NewMicroTime(begin.Add(3 * time.Minute)), Sequence: 3, Kind: quotav1alpha1.JournalEntryLimitChanged, ResourceType: "shop/maps",
			Dimensions: map[string]string{"region": "eu"}, Change: -5, Used: 2, Limit: 95, Grant: "shop/base", Actor: "bob",
		},
	}}
	if diff := cmp.Diff(want, q.page(t)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestPages(t *testing.T) {
	late := admitted(4)
	late.Time = late.Time.Add(-5 * time.Minute) // earlier than the entries before it
	entries := admissions(7)
	entries[3] = late
	tests := map[string]struct {
		reason string
		spec   quotav1alpha1.QuotaHistorySpec
		want   [][]int64
	}{
		"One":         {"a page may hold all", quotav1alpha1.QuotaHistorySpec{}, [][]int64{{1, 2, 3, 4, 5, 6, 7}}},
		"Exact":       {"a full last page has no next one", quotav1alpha1.QuotaHistorySpec{Limit: 7}, [][]int64{{1, 2, 3, 4, 5, 6, 7}}},
		"Several":     {"each entry is on one page", quotav1alpha1.QuotaHistorySpec{Limit: 3}, [][]int64{{1, 2, 3}, {4, 5, 6}, {7}}},
		"Single":      {"the smallest limit leaves nothing out", quotav1alpha1.QuotaHistorySpec{Limit: 1}, [][]int64{{1}, {2}, {3}, {4}, {5}, {6}, {7}}},
		"Period":      {"pages keep to the period", quotav1alpha1.QuotaHistorySpec{Limit: 2, Since: at(2), Until: at(7)}, [][]int64{{2, 3}, {5, 6}}},
		"AnotherType": {"a type without entries has an empty page", quotav1alpha1.QuotaHistorySpec{ResourceType: "shop/fleets"}, [][]int64{nil}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := question{source: &memory{entries: entries}, permissions: may(everything), spec: tt.spec}
			q.spec.ConsumerRef = acme
			var got [][]int64
			for {
				page := q.page(t)
				got = append(got, sequences(page))
				if q.spec.Continue = page.Continue; page.Continue == "" || len(got) > 10 {
					break
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func at(minutes int64) *metav1.Time {
	return new(metav1.NewTime(begin.Add(time.Duration(minutes) * time.Minute)))
}

// A later page does not search a journal of years from its beginning, and stays within the period of the question.
func TestLaterPagesReadLess(t *testing.T) {
	source := &memory{entries: admissions(100)}
	q := question{source: source, permissions: may(everything), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Limit: 50}}
	q.spec.Continue = q.page(t).Continue
	q.page(t)
	q.spec.Since = at(49)
	q.page(t)
	var since []time.Time
	for _, query := range source.asked {
		since = append(since, query.Since.UTC())
	}
	if diff := cmp.Diff([]time.Time{{}, begin.Add(40 * time.Minute), begin.Add(49 * time.Minute)}, since); diff != "" {
		t.Errorf("the begins of what is read (-want +got):\n%s", diff)
	}
}

func TestDefaultAndLargestLimit(t *testing.T) {
	q := question{source: &memory{entries: admissions(1100)}, permissions: may(everything), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
	if page := q.page(t); len(page.Entries) != quotav1alpha1.HistoryLimitDefault || page.Continue == "" {
		t.Errorf("without a limit there are %d entries, want %d and a token", len(page.Entries), quotav1alpha1.HistoryLimitDefault)
	}
	q.spec.Limit = quotav1alpha1.HistoryLimitMax
	if page := q.page(t); len(page.Entries) != quotav1alpha1.HistoryLimitMax || page.Continue == "" {
		t.Errorf("with the largest limit there are %d entries, want %d and a token", len(page.Entries), quotav1alpha1.HistoryLimitMax)
	}
}

// A page ends before it is too large for an answer of a webhook.
func TestPagesAreBoundedInBytes(t *testing.T) {
	var entries []journal.Entry
	for sequence := range int64(6) {
		e := journal.Entry{Consumer: acme, Sequence: sequence + 1, Time: begin, Kind: journal.Opened, Opening: &journal.Opening{}}
		for i := range 5000 {
			e.Opening.Balances = append(e.Opening.Balances, journal.Balance{ResourceType: strings.Repeat("x", 100), Amount: int64(i)})
		}
		entries = append(entries, e)
	}
	q := question{source: &memory{entries: entries}, permissions: may(everything), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
	first := q.page(t)
	q.spec.Continue = first.Continue
	second := q.page(t)
	if diff := cmp.Diff([][]int64{{1, 2}, {3, 4}}, [][]int64{sequences(first), sequences(second)}); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestWhoSeesWhat(t *testing.T) {
	tests := map[string]struct {
		reason        string
		permissions   *permissions
		actor, object bool
	}{
		"Auditor":           {"who may get the ledger sees everything", may(everything), true, true},
		"AuditorAndTenant":  {"the larger right counts", may(everything, figures), true, true},
		"Tenant":            {"figures name nobody, and no objects in namespaces of others", may(figures), false, false},
		"TenantOfNamespace": {"objects belong to who may get claims there", may(figures, shopClaims), false, true},
		"ClaimsEverywhere":  {"and to who may get all claims", may(figures, allClaims), false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := question{source: &memory{entries: admissions(2)}, permissions: tt.permissions, spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
			for _, e := range q.page(t).Entries {
				if e.Used != e.Sequence || e.Change != 1 || e.Limit != 100 || e.ResourceType != "shop/maps" {
					t.Errorf("%s: the figures are %+v", tt.reason, e)
				}
				if got := e.Actor != ""; got != tt.actor {
					t.Errorf("%s: sees the actor %q: %t, want %t", tt.reason, e.Actor, got, tt.actor)
				}
				if got := e.Object != nil || e.Claim != "" || e.Policy != ""; got != tt.object {
					t.Errorf("%s: sees the object %+v: %t, want %t", tt.reason, e.Object, got, tt.object)
				}
			}
		})
	}
}

func TestOthersSeeNothing(t *testing.T) {
	tests := map[string]struct {
		reason      string
		permissions *permissions
	}{
		"Stranger":        {"a role that may only ask is not enough", may()},
		"AnotherLedger":   {"the ledger of another consumer is not enough", may("consumerledgers  " + naming.Ledger(other))},
		"AnotherHome":     {"a tenant of another namespace is not enough", may("effectiveresourcegrants shop ")},
		"ClaimsAreNotAll": {"claims say nothing of limits", may(allClaims, shopClaims)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			source := &memory{entries: admissions(2)}
			q := question{source: source, permissions: tt.permissions, spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
			q.wantDenied(t, tt.reason, http.StatusForbidden, "you may not read the journal of Organization acme", "bursar-journal-reader", "in namespace "+home)
			if len(source.asked) > 0 {
				t.Errorf("%s: the journal is read before the permissions are known", tt.reason)
			}
		})
	}
}

// A page asks about a bounded number of namespaces, and the next page continues.
func TestPermissionsAreBounded(t *testing.T) {
	entries := admissions(50)
	for i := range entries {
		entries[i].Claim = fmt.Sprintf("ns-%d/maps", i)
	}
	q := question{source: &memory{entries: entries}, permissions: may(figures, "resourceclaims ns-49 "), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
	var all []quotav1alpha1.JournalEntry
	for pages := 0; pages == 0 || q.spec.Continue != ""; pages++ {
		page := q.page(t)
		all = append(all, page.Entries...)
		q.spec.Continue = page.Continue
		if asked := q.permissions.asked; asked > 25 {
			t.Fatalf("a page asks for %d permissions", asked)
		}
		q.permissions.asked = 0
	}
	if len(all) != len(entries) || all[48].Claim != "" || all[49].Claim != "ns-49/maps" {
		t.Errorf("got %d entries, the last of which are %+v, want %d and the last with its claim", len(all), all[len(all)-2:], len(entries))
	}
}

func TestInvalidQuestions(t *testing.T) {
	ofAcme := question{source: &memory{entries: admissions(3)}, permissions: may(everything, "consumerledgers  "+naming.Ledger(other)), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Limit: 1}}
	next := ofAcme.page(t).Continue
	tests := map[string]struct {
		reason string
		spec   quotav1alpha1.QuotaHistorySpec
		stored bool
		want   string
	}{
		"Stored":       {"a history is no object", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}, true, "--dry-run=server"},
		"NoConsumer":   {"there is a journal for each consumer", quotav1alpha1.QuotaHistorySpec{}, false, "spec.consumerRef"},
		"Negative":     {"a limit is positive", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Limit: -1}, false, "give 1 to 1000"},
		"TooMany":      {"a page is bounded", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Limit: 1001}, false, "give 1 to 1000"},
		"LongType":     {"a type is bounded", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, ResourceType: strings.Repeat("x", 254)}, false, "254 characters"},
		"Backwards":    {"a period has a length", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Since: at(2), Until: at(2)}, false, "earlier"},
		"LongToken":    {"a token is bounded", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Continue: strings.Repeat("A", 1025)}, false, "spec.continue"},
		"NoBase64":     {"a token is Bursar's", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Continue: "!"}, false, "spec.continue"},
		"CutToken":     {"a token is whole", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Continue: next[:len(next)-4]}, false, "spec.continue"},
		"NoJSON":       {"a token is Bursar's", quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme, Continue: "AAAA"}, false, "spec.continue"},
		"AnotherToken": {"a token is of one consumer", quotav1alpha1.QuotaHistorySpec{ConsumerRef: other, Continue: next}, false, "spec.continue"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := ofAcme
			q.spec, q.stored = tt.spec, tt.stored
			q.wantDenied(t, tt.reason, http.StatusBadRequest, tt.want)
		})
	}
}

func TestNoJournal(t *testing.T) {
	q := question{permissions: may(everything), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
	q.wantDenied(t, "there is nothing to read", http.StatusNotFound, "standard output", "switched off")
	response, _ := q.ask(t, q.handler())
	if d := response.Result.Details; d == nil || len(d.Causes) != 1 || d.Causes[0].Type != quotav1alpha1.CauseNoJournal {
		t.Errorf("the details are %+v, want the cause %s", d, quotav1alpha1.CauseNoJournal)
	}
}

// A wrong name must not look like a consumer without changes.
func TestNoEntries(t *testing.T) {
	const day = 24 * time.Hour
	tests := map[string]struct {
		reason   string
		consumer quotav1alpha1.ConsumerRef
		spec     quotav1alpha1.QuotaHistorySpec
		known    bool
	}{
		"WrongName":         {"nobody has that name", other, quotav1alpha1.QuotaHistorySpec{}, false},
		"WrongNameInWindow": {"the window is not why", other, quotav1alpha1.QuotaHistorySpec{Since: new(metav1.NewTime(begin))}, false},
		"Window":            {"nothing changed in it", acme, quotav1alpha1.QuotaHistorySpec{Since: new(metav1.NewTime(begin.Add(day)))}, true},
		"Type":              {"nothing of the type changed", acme, quotav1alpha1.QuotaHistorySpec{ResourceType: "shop/fleets"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.spec.ConsumerRef = tt.consumer
			q := question{source: &memory{entries: admissions(2)}, permissions: may(figures), spec: tt.spec}
			if tt.known {
				if page := q.page(t); len(page.Entries) > 0 {
					t.Errorf("%s: got %+v, want an empty page", tt.reason, page)
				}
				return
			}
			q.wantDenied(t, tt.reason, http.StatusNotFound, "the journal has no entry of Organization other: check the name")
			response, _ := q.ask(t, q.handler())
			if d := response.Result.Details; d == nil || len(d.Causes) != 1 || d.Causes[0].Type != quotav1alpha1.CauseNoEntries {
				t.Errorf("%s: the details are %+v, want the cause %s", tt.reason, d, quotav1alpha1.CauseNoEntries)
			}
			q.permissions = may()
			q.wantDenied(t, "others learn nothing of who exists", http.StatusForbidden, "you may not read the journal of Organization other")
		})
	}
}

func TestFailures(t *testing.T) {
	unknown := admitted(3)
	unknown.Kind = "merged"
	broken := &memory{entries: admissions(2), err: errors.New("read /data/journal/7: input/output error")}
	newer := &memory{entries: []journal.Entry{unknown}}
	tests := map[string]struct {
		reason         string
		source         journal.Source
		permissions    *permissions
		want, wantLack string
	}{
		"Auditor":     {"half a journal is worse than none", broken, may(everything), "input/output error", "log"},
		"Tenant":      {"tenants learn nothing of files and stores", broken, may(figures), "Bursar's log", "/data"},
		"UnknownKind": {"an entry is never left out in silence", newer, may(everything), "does not know", "log"},
		"Permissions": {"nothing is shown to who may not see it", broken, &permissions{err: errors.New("the API server is busy")}, "the API server is busy", "/data"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := question{source: tt.source, permissions: tt.permissions, spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
			q.wantDenied(t, tt.reason, http.StatusServiceUnavailable, "the journal of Organization acme could not be read", tt.want)
			response, _ := q.ask(t, q.handler())
			if strings.Contains(response.Result.Message, tt.wantLack) || response.Result.Details.RetryAfterSeconds == 0 {
				t.Errorf("%s: got %+v, want nothing of %q and a time to try again", tt.reason, response.Result, tt.wantLack)
			}
		})
	}
}

// When the time is up, a page has the entries so far, and the next one continues.
func TestTimeIsObserved(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	source := &memory{entries: admissions(9), before: func(e *journal.Entry) {
		if e.Sequence == 4 {
			cancel()
		}
	}}
	q := question{source: source, permissions: may(everything), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}, ctx: ctx}
	first := q.page(t)
	q.spec.Continue, q.ctx, source.before = first.Continue, nil, nil
	second := q.page(t)
	if diff := cmp.Diff([][]int64{{1, 2, 3}, {4, 5, 6, 7, 8, 9}}, [][]int64{sequences(first), sequences(second)}); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	ctx, cancel = context.WithCancel(t.Context())
	source.before = func(*journal.Entry) { cancel() }
	q.spec.Continue, q.ctx = "", ctx
	q.wantDenied(t, "there is no page without an entry that says where the next begins", http.StatusGatewayTimeout, "narrow spec.since")
}

// blocked is a source with a gate.
type blocked struct {
	begun, end chan struct{}
}

func (b *blocked) Entries(context.Context, journal.Query) iter.Seq2[journal.Entry, error] {
	return func(func(journal.Entry, error) bool) {
		b.begun <- struct{}{}
		<-b.end
	}
}

// Histories wait for their turn, and so leave memory and CPU time to creates.
func TestTurns(t *testing.T) {
	source := &blocked{begun: make(chan struct{}), end: make(chan struct{})}
	q := question{source: source, permissions: may(everything), spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: acme}}
	handler := q.handler()
	var answered sync.WaitGroup
	for range 2 {
		answered.Go(func() { q.ask(t, handler) })
		<-source.begun
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, "/quotahistory", strings.NewReader("")))
	if recorder.Code != http.StatusServiceUnavailable || !strings.Contains(recorder.Body.String(), "too many QuotaHistories") {
		t.Errorf("a third history gets %d: %s", recorder.Code, recorder.Body)
	}
	close(source.end)
	answered.Wait()
}
