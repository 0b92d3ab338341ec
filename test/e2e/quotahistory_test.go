package e2e

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/overapi"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// kept is a journal in memory.
type kept []journal.Entry

// Entries implements [journal.Source].
func (k kept) Entries(_ context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for i := range k {
			if query.Matches(&k[i]) && !yield(k[i], nil) {
				return
			}
		}
	}
}

// shop is the consumer of the journal. Its quota objects are in the namespace shop.
var shop = platform.Consumer("shop")

// journalOfShop is a journal with a large ledger at its beginning, and with entries of objects in two namespaces.
func journalOfShop() kept {
	begin := time.Date(2026, 11, 26, 10, 0, 0, 123_456_000, time.UTC)
	opened := journal.Entry{Consumer: shop, Sequence: 1, Time: begin, Kind: journal.Opened, Opening: &journal.Opening{Lost: 3}}
	for i := range 10_000 {
		opened.Opening.Balances = append(opened.Opening.Balances, journal.Balance{
			ResourceType: "shop/maps", Dimensions: map[string]string{"region": fmt.Sprintf("%s-%d", strings.Repeat("x", 60), i)}, Amount: 1,
		})
	}
	all := kept{opened}
	for sequence := int64(2); sequence <= 2200; sequence++ {
		namespace := []string{"shop", "elsewhere"}[sequence%2]
		all = append(all, journal.Entry{
			Consumer: shop, Sequence: sequence, Time: begin.Add(time.Duration(sequence) * time.Second), Kind: journal.Admitted, ResourceType: "shop/maps",
			Dimensions: map[string]string{"region": strings.Repeat("y", 60)}, Change: 1, Used: sequence, Limit: 5000, Actor: "alice", Policy: "maps",
			Claim:  fmt.Sprintf("%s/maps-%d", namespace, sequence),
			Object: &journal.Object{Kind: "ConfigMap", Namespace: namespace, Name: fmt.Sprint("m", sequence), UID: fmt.Sprint("u", sequence)},
		})
	}
	return all
}

// historian is a server with a journal.
type historian struct {
	*testing.T
	server *server.Server
}

// as returns the client of a user of the test's own with a role. The role holds in a namespace, or in the whole cluster
// if that is empty. Without a role the user may do nothing.
func (h *historian) as(role, namespace string) client.Client {
	h.Helper()
	user := nameOf(h) + "-" + strings.Trim(role+"-"+namespace, "-")
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	switch {
	case role == "":
	case namespace == "":
		must(h, h.server.Admin.Create(h.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: ref, Subjects: subjects}))
	default:
		must(h, h.server.Admin.Create(h.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: namespace}, RoleRef: ref, Subjects: subjects}))
	}
	api, err := h.server.As(rest.ImpersonationConfig{UserName: user})
	must(h, err)
	return api
}

// ask creates a history in a namespace.
func (h *historian) ask(as client.Client, namespace string, spec quotav1alpha1.QuotaHistorySpec, options ...client.CreateOption) (*quotav1alpha1.QuotaHistoryStatus, error) {
	history := &quotav1alpha1.QuotaHistory{ObjectMeta: metav1.ObjectMeta{GenerateName: "h-", Namespace: namespace}, Spec: spec}
	err := as.Create(h.Context(), history, options...)
	return history.Status, err
}

func TestQuotaHistory(t *testing.T) {
	t.Parallel()
	h := &historian{T: t, server: start(t, standalone.Options{History: journalOfShop(), Quota: config.Quota{
		ConsumerNamespaces: []config.ConsumerNamespace{{APIGroup: shop.APIGroup, Kind: shop.Kind, Namespace: "{{name}}"}},
	}})}
	must(t, platform.Install(t.Context(), h.server.Admin))
	for _, name := range []string{"shop", "elsewhere"} {
		must(t, h.server.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	t.Run("Pages", func(t *testing.T) { (&historian{t, h.server}).testPages() })
	t.Run("Bounds", func(t *testing.T) { (&historian{t, h.server}).testBounds() })
	t.Run("Roles", func(t *testing.T) { (&historian{t, h.server}).testRoles() })
	t.Run("Auditor", func(t *testing.T) { (&historian{t, h.server}).testAuditor() })
}

// All pages together are the journal, with entries of any size.
func (h *historian) testPages() {
	source := &overapi.Source{API: h.server.Admin, Namespace: "default"}
	var got kept
	for entry, err := range source.Entries(h.Context(), journal.Query{Consumer: &shop}) {
		must(h, err)
		got = append(got, entry)
	}
	if diff := cmp.Diff(journalOfShop(), got); diff != "" {
		h.Errorf("journal over the API server (-want +got):\n%.2000s", diff)
	}
}

func (h *historian) testBounds() {
	from := func(second int) *metav1.Time { return new(metav1.NewTime(journalOfShop()[second].Time)) }
	page, err := h.ask(h.server.Admin, "default", quotav1alpha1.QuotaHistorySpec{ConsumerRef: shop, Since: from(2)}, client.DryRunAll)
	must(h, err)
	if len(page.Entries) != quotav1alpha1.HistoryLimitDefault || page.Continue == "" {
		h.Errorf("without a limit there are %d entries and the token %q, want %d and a token", len(page.Entries), page.Continue, quotav1alpha1.HistoryLimitDefault)
	}
	if _, err := h.ask(h.server.Admin, "default", quotav1alpha1.QuotaHistorySpec{ConsumerRef: shop}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "--dry-run=server") {
		h.Errorf("got %v, want a create without dry run to be rejected", err)
	}
	for name, spec := range map[string]quotav1alpha1.QuotaHistorySpec{
		"a large limit":      {ConsumerRef: shop, Limit: quotav1alpha1.HistoryLimitMax + 1},
		"a broken token":     {ConsumerRef: shop, Continue: "broken"},
		"a period backwards": {ConsumerRef: shop, Since: from(3), Until: from(2)},
	} {
		if _, err := h.ask(h.server.Admin, "default", spec, client.DryRunAll); !apierrors.IsBadRequest(err) {
			h.Errorf("%s: got %v, want it to be rejected", name, err)
		}
	}
	var list quotav1alpha1.QuotaHistoryList
	if must(h, h.server.Admin.List(h.Context(), &list)); len(list.Items) > 0 {
		h.Errorf("%d histories are stored", len(list.Items))
	}
}

// sees are the fields visible to somebody in an entry of the namespace shop, and in one elsewhere.
type sees struct {
	Actor, Object, Elsewhere bool
}

// testRoles asks as a user with each role.
func (h *historian) testRoles() {
	tests := map[string]struct {
		reason, role, namespace string
		want                    *sees
	}{
		"Auditor":       {"sees everything", "bursar-journal-reader", "", &sees{true, true, true}},
		"Manager":       {"sees the ledgers", "bursar-quota-manager", "", &sees{true, true, true}},
		"PlatformAdmin": {"sees the ledgers", "bursar-platform-admin", "", &sees{true, true, true}},
		"Approver":      {"sees the quota of all, and their claims", "bursar-quota-approver", "", &sees{false, true, true}},
		"TenantViewer":  {"sees what is in its namespace", "bursar-tenant-viewer", "shop", &sees{false, true, false}},
		"TenantAdmin":   {"sees what is in its namespace", "bursar-tenant-admin", "shop", &sees{false, true, false}},
		"Viewer":        {"the usual role contains that of tenants", "view", "shop", &sees{false, true, false}},
		"OtherTenant":   {"sees its own quota only", "bursar-tenant-viewer", "elsewhere", nil},
		"OwningService": {"may not ask", "bursar-owning-service", "", nil},
		"Stranger":      {"may not ask", "", "", nil},
	}
	for name, tt := range tests {
		h.Run(name, func(t *testing.T) {
			h := &historian{t, h.server}
			as, namespace := h.as(tt.role, tt.namespace), tt.namespace
			if namespace == "" {
				namespace = "default"
			}
			var status *quotav1alpha1.QuotaHistoryStatus
			ask := func() (err error) {
				status, err = h.ask(as, namespace, quotav1alpha1.QuotaHistorySpec{ConsumerRef: shop, Since: new(metav1.NewTime(journalOfShop()[1].Time)), Limit: 3}, client.DryRunAll)
				return err
			}
			if tt.want == nil {
				if tt.namespace != "" { // Bursar's own denial proves the binding of the role
					eventually(t, func() error {
						if err := ask(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "you may not read the journal of Organization shop") {
							return fmt.Errorf("%s: got %w, want it to be forbidden", tt.reason, err)
						}
						return nil
					})
				} else if err := ask(); !apierrors.IsForbidden(err) {
					t.Errorf("%s: got %v, want it to be forbidden", tt.reason, err)
				}
				return
			}
			eventually(t, ask)
			here, there := status.Entries[0], status.Entries[1]
			if got := (sees{here.Actor != "", here.Object != nil && here.Claim != "", there.Object != nil || there.Claim != ""}); got != *tt.want {
				t.Errorf("%s: sees %+v, want %+v", tt.reason, got, *tt.want)
			}
			if here.Used != here.Sequence || there.Used != there.Sequence {
				t.Errorf("%s: the figures are %+v and %+v", tt.reason, here, there)
			}
		})
	}
}

// testAuditor reads everything without naming a consumer. This needs the consumers' ledgers.
func (h *historian) testAuditor() {
	must(h, h.server.Admin.Create(h.Context(), unitRegistration()))
	must(h, h.server.Admin.Create(h.Context(), &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: "shop"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: shop, Allowances: []quotav1alpha1.Allowance{{ResourceType: unit, Buckets: []quotav1alpha1.Bucket{{Amount: 5}}}},
	}}))
	eventually(h, func() error {
		return h.server.Admin.Get(h.Context(), client.ObjectKey{Name: naming.Ledger(shop)}, &quotav1alpha1.ConsumerLedger{})
	})
	source := &overapi.Source{API: h.as("bursar-journal-reader", ""), Namespace: "default"}
	eventually(h, func() error {
		count := 0
		for _, err := range source.Entries(h.Context(), journal.Query{Since: journalOfShop()[1].Time}) {
			if err != nil {
				return err
			}
			count++
		}
		if want := len(journalOfShop()) - 1; count != want {
			return fmt.Errorf("an auditor reads %d entries, want %d", count, want)
		}
		return nil
	})
	// A tenant without a named consumer reads the namespace's quota. In a namespace without quota the tenant reads
	// nothing.
	tenant := &overapi.Source{API: h.as("bursar-tenant-admin", "shop"), Namespace: "shop"}
	eventually(h, func() error {
		count := 0
		for entry, err := range tenant.Entries(h.Context(), journal.Query{Since: journalOfShop()[1].Time}) {
			if err != nil {
				return err
			}
			if count++; entry.Consumer != shop || entry.Actor != "" {
				return fmt.Errorf("a tenant reads %+v", entry)
			}
		}
		if want := len(journalOfShop()) - 1; count != want {
			return fmt.Errorf("a tenant reads %d entries, want %d", count, want)
		}
		return nil
	})
	tenant.Namespace = "elsewhere"
	for _, err := range tenant.Entries(h.Context(), journal.Query{}) {
		if err == nil || !strings.Contains(err.Error(), "you may not list the consumers") {
			h.Errorf("a tenant in another namespace gets %v", err)
		}
	}
}
