package overapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/quotahistory"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/overapi"
	"github.com/bursar/bursar/internal/naming"
)

var begin = time.Date(2026, 11, 26, 10, 0, 0, 123_456_000, time.UTC)

// memory is a source of entries.
type memory []journal.Entry

func (m memory) Entries(_ context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for i := range m {
			if query.Matches(&m[i]) && !yield(m[i], nil) {
				return
			}
		}
	}
}

func consumer(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Organization", Name: name}
}

// entries are those of two consumers, beside each other.
func entries() memory {
	var all memory
	for _, name := range []string{"acme", "globex"} {
		all = append(all, journal.Entry{Consumer: consumer(name), Sequence: 1, Time: begin, Kind: journal.Opened, Opening: &journal.Opening{
			Lost: 1, Limits: []journal.Limit{{ResourceType: "shop/maps", Grant: "shop/base", Amount: 5}},
			Balances: []journal.Balance{{ResourceType: "shop/maps", Dimensions: map[string]string{"region": "eu"}, Amount: 1}},
		}})
	}
	kinds := []journal.Kind{journal.Admitted, journal.Canceled, journal.Changed, journal.Released, journal.LimitChanged}
	for sequence := int64(2); sequence <= 2500; sequence++ {
		for _, name := range []string{"acme", "globex"} {
			all = append(all, journal.Entry{
				Consumer: consumer(name), Sequence: sequence, Time: begin.Add(time.Duration(sequence) * time.Second), Kind: kinds[int(sequence)%len(kinds)],
				ResourceType: []string{"shop/maps", "shop/fleets"}[sequence%2], Change: -sequence, Used: sequence, Limit: 5, Claim: "shop/c", Actor: "alice",
				Object: &journal.Object{Kind: "ConfigMap", Namespace: "shop", Name: "m", UID: "u"},
			})
		}
	}
	return all
}

// permissions are those of every user, by resource.
type permissions map[string]bool

func (p permissions) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return p[what.Resource], nil
}

type consumers struct{}

func (consumers) ConsumerNamespace(quotav1alpha1.ConsumerRef) string { return "home" }

// api is an API server with the ledgers of two consumers. It answers QuotaHistories as Bursar does.
type api struct {
	source      journal.Source
	permissions permissions
	// pages counts the histories, and fail is the error of each.
	pages int
	fail  error
}

func (a *api) client(t *testing.T) client.Client {
	t.Helper()
	types := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(types)
	for _, name := range []string{"acme", "globex"} {
		builder.WithObjects(&quotav1alpha1.ConsumerLedger{
			ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(consumer(name))}, Spec: quotav1alpha1.ConsumerLedgerSpec{ConsumerRef: consumer(name)},
		})
	}
	handler := quotahistory.New(quotahistory.Dependencies{Journal: a.source, Consumers: consumers{}, Permissions: a.permissions}).Handler()
	return builder.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if !a.permissions["consumerledgers"] {
				return apierrors.NewForbidden(quotav1alpha1.Resource("consumerledgers"), "", nil)
			}
			return api.List(ctx, list, options...)
		},
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) error {
			a.pages++
			if diff := cmp.Diff([]client.CreateOption{client.DryRunAll}, options); diff != "" {
				t.Errorf("a history is created with other options (-want +got):\n%s", diff)
			}
			if a.fail != nil {
				return a.fail
			}
			return a.answer(t, handler, object.(*quotav1alpha1.QuotaHistory))
		},
	}).Build()
}

// answer sets the status of a history, as the API server does after it asked the webhook.
func (a *api) answer(t *testing.T, handler http.Handler, history *quotav1alpha1.QuotaHistory) error {
	t.Helper()
	object, err := json.Marshal(history)
	if err != nil {
		return err
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: "1", DryRun: new(true), Object: runtime.RawExtension{Raw: object}},
	})
	if err != nil {
		return err
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/quotahistory", strings.NewReader(string(body))))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		return err
	}
	if !review.Response.Allowed {
		status := *review.Response.Result
		status.Message = `admission webhook "quotahistory.quota.miloapis.com" denied the request: ` + status.Message
		return &apierrors.StatusError{ErrStatus: status}
	}
	var patch []struct {
		Value *quotav1alpha1.QuotaHistoryStatus `json:"value"`
	}
	if err := json.Unmarshal(review.Response.Patch, &patch); err != nil {
		return err
	}
	history.Status = patch[0].Value
	return nil
}

// read returns the entries by consumer, and the error.
func read(t *testing.T, source journal.Source, query journal.Query) (map[quotav1alpha1.ConsumerRef][]journal.Entry, error) {
	t.Helper()
	all := map[quotav1alpha1.ConsumerRef][]journal.Entry{}
	for entry, err := range source.Entries(t.Context(), query) {
		if err != nil {
			return all, err
		}
		all[entry.Consumer] = append(all[entry.Consumer], entry)
	}
	return all, nil
}

// A user with full sight reads the same over the API server as from the place of the journal.
func TestSameAsItsSource(t *testing.T) {
	tests := map[string]struct {
		reason string
		query  journal.Query
		pages  int
	}{
		"Everything":  {"all pages of all consumers are read", journal.Query{}, 6},
		"OneConsumer": {"the API server is asked for one consumer only", journal.Query{Consumer: new(consumer("globex"))}, 3},
		"OneType":     {"the API server leaves out other types", journal.Query{Consumer: new(consumer("acme")), ResourceType: "shop/fleets"}, 2},
		"Period":      {"times count to the microsecond", journal.Query{Since: begin.Add(10 * time.Second), Until: begin.Add(20 * time.Second)}, 2},
		"InASecond":   {"a period may lie within a second", journal.Query{Since: begin.Add(-time.Millisecond), Until: begin.Add(time.Millisecond)}, 2},
		"Nothing":     {"a consumer without entries has an empty journal", journal.Query{Consumer: new(consumer("nobody"))}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := &api{source: entries(), permissions: permissions{"consumerledgers": true}}
			want, err := read(t, server.source, tt.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := read(t, &overapi.Source{API: server.client(t), Namespace: "shop"}, tt.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			if server.pages != tt.pages {
				t.Errorf("%s: %d pages are read, want %d", tt.reason, server.pages, tt.pages)
			}
		})
	}
}

// A reader causes no further requests after it has seen enough.
func TestEndsEarly(t *testing.T) {
	server := &api{source: entries(), permissions: permissions{"consumerledgers": true}}
	source := &overapi.Source{API: server.client(t), Namespace: "shop"}
	for range source.Entries(t.Context(), journal.Query{}) {
		break
	}
	if server.pages != 1 {
		t.Errorf("%d pages are read for one entry", server.pages)
	}
}

func TestErrors(t *testing.T) {
	acme := journal.Query{Consumer: new(consumer("acme"))}
	histories := quotav1alpha1.Resource("quotahistories")
	tests := map[string]struct {
		reason string
		server api
		query  journal.Query
		want   string
	}{
		"MayNotList": {"who may not list consumers can name a namespace", api{source: entries()}, journal.Query{}, "with --namespace, or have the role bursar-journal-reader"},
		"MayNotRead": {"the answer of Bursar comes without its webhook", api{source: entries()}, acme, "you may not read the journal of Organization acme"},
		"MayNotAsk": {
			"a role is missing", api{source: entries(), fail: apierrors.NewForbidden(histories, "", nil)}, acme,
			"you may not create QuotaHistories in namespace shop: name another with --namespace",
		},
		"NoJournal":  {"the answer says where it goes", api{permissions: permissions{"consumerledgers": true}}, acme, "there is no journal to read here"},
		"OldServer":  {"the server is of an earlier version", api{fail: apierrors.NewNotFound(histories, "")}, acme, "the API server serves no journals: install"},
		"NoSuchHome": {"the namespace does not exist", api{fail: namespaceNotFound()}, acme, "read the journal of Organization acme: namespaces"},
		"Late": {
			"who reads with a command has other names for it", api{fail: apierrors.NewTimeoutError("the webhook denied the request: it is too long: narrow spec.since and spec.until", 0)}, acme,
			"narrow spec.since and spec.until, with --since and --until, or read its storage with --journal",
		},
		"Other": {"the error says what was read", api{fail: apierrors.NewTooManyRequests("slow down", 1)}, acme, "read the journal of Organization acme: slow down"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, &overapi.Source{API: tt.server.client(t), Namespace: "shop"}, tt.query)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "webhook") {
				t.Errorf("%s: got %d entries and %v, want an error with %q", tt.reason, len(got), err, tt.want)
			}
		})
	}
}

// A consumer without entries is no failure for a reader of all consumers' entries.
func TestNoEntries(t *testing.T) {
	server := api{source: entries(), permissions: permissions{"consumerledgers": true}}
	got, err := read(t, &overapi.Source{API: server.client(t), Namespace: "shop"}, journal.Query{Consumer: new(consumer("initech"))})
	if len(got) > 0 || err != nil {
		t.Errorf("got %d entries and %v, want none", len(got), err)
	}
}

func namespaceNotFound() error {
	err := apierrors.NewNotFound(quotav1alpha1.Resource("namespaces"), "shop")
	err.ErrStatus.Details.Kind = "namespaces"
	return err
}

// pages answers with the same page again and again.
type pages struct {
	client.Client
	status quotav1alpha1.QuotaHistoryStatus
}

func (p *pages) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	object.(*quotav1alpha1.QuotaHistory).Status = p.status.DeepCopy()
	return nil
}

// An answer without sense ends the iteration, and causes no endless repetition.
func TestOddAnswers(t *testing.T) {
	entry := quotav1alpha1.JournalEntry{Sequence: 7, Kind: quotav1alpha1.JournalEntryAdmitted}
	tests := map[string]struct {
		reason string
		status quotav1alpha1.QuotaHistoryStatus
		want   string
	}{
		"Empty":       {"an empty page has no next one", quotav1alpha1.QuotaHistoryStatus{Continue: "next"}, "pages without entries"},
		"Repeated":    {"an entry comes once", quotav1alpha1.QuotaHistoryStatus{Continue: "next", Entries: []quotav1alpha1.JournalEntry{entry}}, "entry 7 comes after entry 7"},
		"UnknownKind": {"the server is newer", quotav1alpha1.QuotaHistoryStatus{Entries: []quotav1alpha1.JournalEntry{{Sequence: 1, Kind: "Merged"}}}, "does not know"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, &overapi.Source{API: &pages{status: tt.status}, Namespace: "shop"}, journal.Query{Consumer: new(consumer("acme"))})
			if err == nil || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%s: got %v, want an error with %q", tt.reason, err, tt.want)
			}
		})
	}
}
