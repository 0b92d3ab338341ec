package quotahistory_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/quotahistory"
	"github.com/bursar/bursar/internal/admission/review/reviewtest"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/naming"
)

// home is the namespace with the quota objects of every consumer.
const home = "organization-acme"

var (
	acme  = quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Organization", Name: "acme"}
	other = quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Organization", Name: "other"}
	begin = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
)

// memory is a source of entries. It fails after them if err is set.
type memory struct {
	entries []journal.Entry
	err     error
	// before is called with each entry before memory yields it.
	before func(*journal.Entry)
	// asked are the queries so far.
	mu    sync.Mutex
	asked []journal.Query
}

// heal ends the failure.
func (m *memory) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
}

func (m *memory) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	m.mu.Lock()
	m.asked = append(m.asked, query)
	failure := m.err
	m.mu.Unlock()

	return func(yield func(journal.Entry, error) bool) {
		for i := range m.entries {
			if !query.Matches(&m.entries[i]) {
				continue
			}
			if m.before != nil {
				m.before(&m.entries[i])
			}
			if ctx.Err() != nil {
				yield(journal.Entry{}, ctx.Err())
				return
			}
			if !yield(m.entries[i], nil) {
				return
			}
		}
		if failure != nil {
			yield(journal.Entry{}, failure)
		}
	}
}

// admitted is an entry of acme, a minute after the one before.
func admitted(sequence int64) journal.Entry {
	return journal.Entry{
		Consumer: acme, Sequence: sequence, Time: begin.Add(time.Duration(sequence) * time.Minute), Kind: journal.Admitted, ResourceType: "shop/maps",
		Change: 1, Used: sequence, Limit: 100, Claim: fmt.Sprintf("shop/maps-%d", sequence), Policy: "maps", Actor: "alice",
		Object: &journal.Object{Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("m", sequence), UID: fmt.Sprint("u", sequence)},
	}
}

// admissions are the entries 1 to n.
func admissions(n int64) []journal.Entry {
	var entries []journal.Entry
	for sequence := range n {
		entries = append(entries, admitted(sequence+1))
	}
	return entries
}

// permissions are those of every user, as RESOURCE NAMESPACE NAME, and err is why nobody knows.
type permissions struct {
	mu      sync.Mutex
	granted map[string]bool
	asked   int
	err     error
}

func (p *permissions) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if what.Verb != "get" || what.Group != quotav1alpha1.GroupName {
		return false, fmt.Errorf("nobody should ask for %+v", what)
	}
	return p.granted[strings.Join([]string{what.Resource, what.Namespace, what.Name}, " ")], p.err
}

// may permits everything that is named.
func may(granted ...string) *permissions {
	p := &permissions{granted: map[string]bool{}}
	for _, each := range granted {
		p.granted[each] = true
	}
	return p
}

// The permissions of an auditor, of a tenant, and of tenants with a right to read claims everywhere or in the
// namespace shop.
var (
	everything = "consumerledgers  " + naming.Ledger(acme)
	figures    = "effectiveresourcegrants " + home + " "
	allClaims  = "resourceclaims  "
	shopClaims = "resourceclaims shop "
)

type consumers struct{}

func (consumers) ConsumerNamespace(quotav1alpha1.ConsumerRef) string { return home }

// question is a QuotaHistory and its user.
type question struct {
	source      journal.Source
	permissions *permissions
	spec        quotav1alpha1.QuotaHistorySpec
	stored      bool
	ctx         context.Context
}

// handler answers questions.
func (q *question) handler() http.Handler {
	return quotahistory.New(quotahistory.Dependencies{Journal: q.source, Consumers: consumers{}, Permissions: q.permissions}).Handler()
}

// ask returns the answer of a handler, and the status in it.
func (q *question) ask(t *testing.T, handler http.Handler) (*admissionv1.AdmissionResponse, *quotav1alpha1.QuotaHistoryStatus) {
	t.Helper()
	ctx := q.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	return reviewtest.AskFor[quotav1alpha1.QuotaHistoryStatus](ctx, t, handler, "/quotahistory?timeout=6s", &quotav1alpha1.QuotaHistory{Spec: q.spec}, !q.stored)
}

// page returns the user's page.
func (q *question) page(t *testing.T) *quotav1alpha1.QuotaHistoryStatus {
	t.Helper()
	response, status := q.ask(t, q.handler())
	if status == nil {
		t.Fatalf("got %+v, want a page", response.Result)
	}
	return status
}

// wantDenied checks the answer of a denied question.
func (q *question) wantDenied(t *testing.T, reason string, code int32, want ...string) {
	t.Helper()
	response, status := q.ask(t, q.handler())
	if status != nil {
		t.Fatalf("%s: got a page with %d entries, want status %d", reason, len(status.Entries), code)
	}
	for _, part := range want {
		if response.Result.Code != code || !strings.Contains(response.Result.Message, part) {
			t.Errorf("%s: got %d: %q, want %d with %q", reason, response.Result.Code, response.Result.Message, code, part)
		}
	}
}

// sequences are those of a page.
func sequences(status *quotav1alpha1.QuotaHistoryStatus) []int64 {
	var all []int64
	for i := range status.Entries {
		all = append(all, status.Entries[i].Sequence)
	}
	return all
}
