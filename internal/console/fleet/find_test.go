package fleet

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// grantOf is the effective grant of a consumer.
func grantOf(name, resourceType string, used, limit int64) *quotav1alpha1.EffectiveResourceGrant {
	return &quotav1alpha1.EffectiveResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "org-" + name, Name: name + "-" + resourceType},
		Spec: quotav1alpha1.EffectiveResourceGrantSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: name}, ResourceType: resourceType,
		},
		Status: quotav1alpha1.EffectiveResourceGrantStatus{
			TotalAllocated: used, TotalLimit: limit, Available: max(limit-used, 0), Display: &quotav1alpha1.DisplayedQuota{
				TotalAllocated: fmt.Sprint(used, " GiB"), TotalLimit: fmt.Sprint(limit, " GiB"), Available: fmt.Sprint(max(limit-used, 0), " GiB"),
			},
		},
	}
}

func stored(t testing.TB, grants ...*quotav1alpha1.EffectiveResourceGrant) *quotaStore {
	t.Helper()
	s := newQuotaStore()
	for _, grant := range grants {
		if err := s.Add(grant); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func namesOf(r Result) []string {
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Consumer.Name)
	}
	return names
}

func TestFind(t *testing.T) {
	quota := stored(t,
		grantOf("over", "cpu", 11, 10), grantOf("full", "cpu", 10, 10), grantOf("near", "cpu", 8, 10), grantOf("half", "cpu", 5, 10),
		grantOf("idle", "cpu", 0, 10), grantOf("half", "maps", 1, 2), grantOf("none", "maps", 0, 0), grantOf("ungranted", "maps", 1, 0))
	requests := newRequestStore()
	if err := requests.Add(&quotav1alpha1.QuotaRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: quotav1alpha1.QuotaRequestSpec{
			ConsumerRef: grantOf("half", "", 0, 0).Spec.ConsumerRef,
			Requests: []quotav1alpha1.RequestedQuota{
				{ResourceType: "cpu", Increase: new(int64(1)), Dimensions: map[string]string{"zone": "a"}},
				{ResourceType: "cpu", Increase: new(int64(1)), Dimensions: map[string]string{"zone": "b"}},
			},
		},
	}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		reason string
		query  Query
		want   []string
	}{
		"all":     {"the most used part of a limit comes first, and use without a limit before it", Query{}, []string{"ungranted", "over", "full", "near", "half", "half", "idle", "none"}},
		"over":    {"more is used than the limit", Query{State: Over}, []string{"ungranted", "over"}},
		"near":    {"a limit that is reached is not exceeded", Query{State: Near}, []string{"full", "near"}},
		"idle":    {"nothing is idle where nothing is granted", Query{State: Idle}, []string{"idle"}},
		"waiting": {"it asked for more cpu, and not for more maps", Query{State: Waiting}, []string{"half"}},
		"no room": {"a limit of 0 has no room", Query{HasNoRoom: true, Order: ByConsumer}, []string{"full", "none", "over", "ungranted"}},
		"type":    {"the other type is left out", Query{ResourceType: "maps"}, []string{"ungranted", "half", "none"}},
		"text":    {"case does not count", Query{Text: "NEAR"}, []string{"near"}},
		"kind":    {"the kind must be the whole one", Query{Text: "organization/f"}, []string{"full", "half", "half"}},
		"no kind": {"there are no such consumers", Query{Text: "Project/f"}, nil},
		"place":   {"the namespace of the consumer is empty, so that it does not match", Query{Text: "org-near"}, nil},
		"least":   {"idle grants come first, the larger first", Query{Order: ByLeastUse, ResourceType: "cpu"}, []string{"idle", "half", "near", "full", "over"}},
		"by type": {"types come in their order", Query{Order: ByType}, []string{"over", "full", "near", "half", "idle", "ungranted", "half", "none"}},
		"beyond":  {"a page beyond the last one is the last one", Query{Page: 9, Text: "over"}, []string{"over"}},
	} {
		if diff := cmp.Diff(tt.want, namesOf(find(quota, requests, tt.query))); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tt.reason, diff)
		}
	}
	got := find(quota, requests, Query{State: Over})
	if diff := cmp.Diff(map[State]int{"": 8, Over: 2, Near: 2, Idle: 1, Waiting: 1}, got.Counts); diff != "" {
		t.Errorf("the counts of all states do not depend on the selected one (-want +got):\n%s", diff)
	}
	if counts := find(quota, requests, Query{ResourceType: "maps", Text: "none", State: Over}).Counts; counts[""] != 1 || counts[Over] != 0 {
		t.Errorf("the counts do not have the other filters: %v", counts)
	}
	if diff := cmp.Diff([]string{"cpu", "maps"}, got.Types); diff != "" || got.All != 8 {
		t.Errorf("there are %d rows (-want +got):\n%s", got.All, diff)
	}
}

func TestPages(t *testing.T) {
	quota := newQuotaStore()
	for i := range 2*PageSize + 1 {
		if err := quota.Add(grantOf(fmt.Sprintf("c-%03d", i), "cpu", int64(i), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	for page, want := range map[int]struct {
		rows  int
		first string
	}{0: {PageSize, "c-100"}, 1: {PageSize, "c-100"}, 2: {PageSize, "c-050"}, 3: {1, "c-000"}} {
		if got := find(quota, nil, Query{Page: page}); len(got.Rows) != want.rows || got.Rows[0].Consumer.Name != want.first || got.Pages != 3 {
			t.Errorf("page %d: %d rows from %s on, of %d pages; want %+v", page, len(got.Rows), got.Rows[0].Consumer.Name, got.Pages, want)
		}
	}
}

// A row follows its object. After a move to another namespace, the row survives the deletion of the former object.
func TestStore(t *testing.T) {
	before := grantOf("web", "cpu", 1, 10)
	quota := stored(t, before)
	moved := grantOf("web", "cpu", 2, 10)
	moved.Namespace = "elsewhere"
	for _, do := range []func() error{func() error { return quota.Update(moved) }, func() error { return quota.Delete(before) }} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if got := find(quota, nil, Query{}); got.All != 1 || got.Rows[0].Used != 2 || got.Rows[0].Namespace != "elsewhere" {
		t.Errorf("got %+v, want the row of the moved one", got)
	}
	if err := quota.Delete(moved); err != nil {
		t.Fatal(err)
	}
	if got := find(quota, nil, Query{}); got.All != 0 {
		t.Errorf("%d rows are left", got.All)
	}
	if err := quota.Replace([]any{before}, ""); err != nil {
		t.Fatal(err)
	}
	select {
	case <-quota.isRead:
	default:
		t.Error("the store does not say that it was read")
	}
}

// One page of 10,000 consumers with two resource types each.
func BenchmarkFind(b *testing.B) {
	quota := newQuotaStore()
	for i := range 10_000 {
		for j, resourceType := range []string{"compute.example.com/vcpus", "compute.example.com/memory"} {
			if err := quota.Add(grantOf(fmt.Sprintf("customer-%05d", i), resourceType, int64((i*7919+j)%1000), 1000)); err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, q := range map[string]Query{"all": {}, "consumer": {Order: ByConsumer}, "search": {Text: "customer-012"}, "over": {State: Near}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				find(quota, nil, q)
			}
		})
	}
}
