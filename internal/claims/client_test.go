package claims

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A record that a claim gives nothing back stays as long as the claim. It has the UID of the claim, or the
// reservation and object behind it.
func TestRecordedAs(t *testing.T) {
	made := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		UID: "made", Annotations: map[string]string{quotav1alpha1.AnnotationResourceUID: "object"},
	}}
	direct := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "direct"}}
	pages := map[string]metav1.PartialObjectMetadataList{
		"":     {ListMeta: metav1.ListMeta{Continue: "more"}, Items: []metav1.PartialObjectMetadata{made}},
		"more": {Items: []metav1.PartialObjectMetadata{direct}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pages[r.URL.Query().Get("continue")])
	}))
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL}, server.Client(), nil)
	if err != nil {
		t.Fatal(err)
	}
	uids, err := client.UIDs(t.Context(), quotav1alpha1.ConsumerRef{Kind: "Org", Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"made", "direct"} {
		if !uids[uid] {
			t.Errorf("%s is not among %v", uid, uids)
		}
	}
}
