package bucket

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

var acme = quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "acme"}

// booksOf makes books in which each grant gives projects, and each claim holds one.
func booksOf(t *testing.T, granted map[string]ledger.Amount, settled, reserved int) *ledger.Ledger {
	t.Helper()
	books := ledger.New()
	for name, amount := range granted {
		_, err := books.SetGrant(ledger.Grant{UID: name, Name: name, Generation: 4, Allowances: []ledger.Allowance{
			{ResourceType: "projects", Amount: amount}, {ResourceType: "other", Amount: 1}, {ResourceType: "projects", Amount: 1},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range settled + reserved {
		key := string(rune('a' + n))
		d := books.Adopt(ledger.Reservation{Key: key, Charges: []ledger.Charge{{ResourceType: "projects", Amount: 1}}})
		if d.Code != ledger.Admitted || n < settled && !books.Settle(key, d.Sequence) {
			t.Fatalf("cannot enter claim %s: %s", key, d.Code)
		}
	}
	return books
}

func TestStatusOf(t *testing.T) {
	refs := []quotav1alpha1.ContributingGrantRef{
		{Name: "base", Amount: 3, LastObservedGeneration: 4}, {Name: "extra", Amount: 1, LastObservedGeneration: 4},
	}
	both := map[string]ledger.Amount{"base": 2, "extra": 0}
	tests := map[string]struct {
		reason            string
		granted           map[string]ledger.Amount
		settled, reserved int
		want              quotav1alpha1.AllowanceBucketStatus
	}{
		"unused": {"allowances of one type add up, within a grant and over all", both, 0, 0,
			quotav1alpha1.AllowanceBucketStatus{Limit: 4, Available: 4, GrantCount: 2, ContributingGrantRefs: refs}},
		"in use": {"what is reserved is taken, and counted as a claim once it is one", both, 2, 1,
			quotav1alpha1.AllowanceBucketStatus{Limit: 4, Allocated: 3, Available: 1, ClaimCount: 2, GrantCount: 2, ContributingGrantRefs: refs}},
		"shrunk": {"nothing is less than nothing", nil, 2, 0,
			quotav1alpha1.AllowanceBucketStatus{Allocated: 2, ClaimCount: 2}},
		"forgotten": {"what the books do not know is nothing", nil, 0, 0, quotav1alpha1.AllowanceBucketStatus{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := statusOf(booksOf(t, tt.granted, tt.settled, tt.reserved), "projects")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestNamespaceOf(t *testing.T) {
	c := &Controller{SystemNamespace: "bursar-system", Namespaces: map[schema.GroupKind]string{
		{Group: acme.APIGroup, Kind: acme.Kind}: "organization-{{name}}",
	}}
	namespaced := acme
	namespaced.Namespace = "tenants"
	otherGroup := acme
	otherGroup.APIGroup = "elsewhere.example.com"
	tests := map[string]struct {
		reason   string
		consumer quotav1alpha1.ConsumerRef
		want     string
	}{
		"own namespace": {"a consumer in a namespace has its buckets there", namespaced, "tenants"},
		"template":      {"the administrator says where consumers of a kind live", acme, "organization-acme"},
		"neither":       {"the group is part of the kind; all others are with Bursar", otherGroup, "bursar-system"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := c.namespaceOf(tt.consumer); got != tt.want {
				t.Errorf("got %q, want %q: %s", got, tt.want, tt.reason)
			}
		})
	}
}

func TestResourceTypes(t *testing.T) {
	var r resourceTypes
	other := acme
	other.Name = "other"
	r.add(acme, "projects", false)
	r.add(acme, "projects", false)
	r.add(acme, "castles", false)
	r.add(other, "projects", false)
	r.remove(acme, "castles")
	r.remove(other, "projects")
	r.remove(other, "never added")
	if diff := cmp.Diff(map[string]bool{"projects": false}, r.of(acme)); diff != "" {
		t.Errorf("types of acme (-want +got):\n%s", diff)
	}
	if len(r.byConsumer) != 1 {
		t.Errorf("%d consumers are remembered, want 1: one without types is forgotten", len(r.byConsumer))
	}
}
