package claimcache

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// What is kept of a claim is the same whether it was listed, where little of it is decoded, or came as an event.
func TestListReadsEveryPage(t *testing.T) {
	now := metav1.NewTime(time.Unix(1700000000, 0))
	paid, direct := claimOf("a", "1", "acme", "object"), claimOf("b", "2", "other", "")
	paid.CreationTimestamp, paid.DeletionTimestamp = now, &now
	paid.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "bursar"}}
	paid.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
	pages := map[string]quotav1alpha1.ResourceClaimList{
		"":     {ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"}, Items: []quotav1alpha1.ResourceClaim{*paid}},
		"more": {ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []quotav1alpha1.ResourceClaim{*direct}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pages[r.URL.Query().Get("continue")])
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	config.GroupVersion, config.NegotiatedSerializer = &quotav1alpha1.GroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	all, err := list(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if all.ResourceVersion != "7" || all.Continue != "" || len(all.Items) != 2 {
		t.Fatalf("got %d claims at version %q, continued by %q; want 2 at 7, by nothing", len(all.Items), all.ResourceVersion, all.Continue)
	}
	for i, want := range []*quotav1alpha1.ResourceClaim{paid, direct} {
		got, err := compact(all.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		if asEvent := Compact(want); *got != *asEvent {
			t.Errorf("claim %s is kept as %#v when it is listed, and as %#v when it comes as an event", want.Name, *got, *asEvent)
		}
	}
}
