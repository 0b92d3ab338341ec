package restore

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func stored(t *testing.T, object any) *unstructured.Unstructured {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func request(t *testing.T, uid types.UID, change func(*quotav1alpha1.QuotaRequestSpec)) *unstructured.Unstructured {
	t.Helper()
	r := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: "default", UID: uid}, Spec: quotav1alpha1.QuotaRequestSpec{
		ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "Organization", Name: "acme"}, Reason: "a release",
		Requests:  []quotav1alpha1.RequestedQuota{{ResourceType: "maps", Increase: new(int64(1))}},
		Requester: &quotav1alpha1.RequestUser{Username: "tom"},
	}}
	change(&r.Spec)
	return stored(t, r)
}

// TestIsSameRequest tells the request of a backup from another of its name.
func TestIsSameRequest(t *testing.T) {
	t.Parallel()
	same := func(*quotav1alpha1.QuotaRequestSpec) {}
	withdraw := func(s *quotav1alpha1.QuotaRequestSpec) {
		s.Withdrawn, s.WithdrawnBy = true, &quotav1alpha1.RequestUser{Username: "tom"}
	}
	for reason, tt := range map[string]struct {
		uid          types.UID
		before, here func(*quotav1alpha1.QuotaRequestSpec)
		want         bool
	}{
		"none here":               {"", same, nil, true},
		"restored before":         {"new", same, same, true},
		"withdrawn since":         {"new", same, withdraw, true},
		"withdrawn in both":       {"new", withdraw, withdraw, true},
		"withdrawn in the backup": {"new", withdraw, same, false},
		"the original":            {"old", withdraw, same, true},
		"of another user":         {"new", same, func(s *quotav1alpha1.QuotaRequestSpec) { s.Requester.Username = "ann" }, false},
		"of nobody":               {"new", same, func(s *quotav1alpha1.QuotaRequestSpec) { s.Requester = nil }, false},
		"for another consumer":    {"new", same, func(s *quotav1alpha1.QuotaRequestSpec) { s.ConsumerRef.Name = "globex" }, false},
		"for more":                {"new", same, func(s *quotav1alpha1.QuotaRequestSpec) { s.Requests[0].Increase = new(int64(2)) }, false},
		"for another time":        {"new", same, func(s *quotav1alpha1.QuotaRequestSpec) { s.Until = &metav1.Time{Time: time.Unix(1, 0)} }, false},
	} {
		r := &restorer{requestUIDs: map[string]string{}}
		var here *unstructured.Unstructured
		if tt.here != nil {
			here = request(t, tt.uid, tt.here)
		}
		got, err := r.isSameRequest(here, request(t, "old", tt.before))
		if err != nil || got != tt.want {
			t.Errorf("%s: got %v, %v, want %v", reason, got, err, tt.want)
		}
		if uid, isKnown := r.requestUIDs["old"]; !isKnown || uid != string(tt.uid) {
			t.Errorf("%s: the UID here is %q, want %q", reason, uid, tt.uid)
		}
	}
}

// TestIsSameDecision tells the decision of a backup from another of its name.
func TestIsSameDecision(t *testing.T) {
	t.Parallel()
	decision := func(uid, by string) *unstructured.Unstructured {
		return stored(t, &quotav1alpha1.QuotaDecision{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: "default"}, Spec: quotav1alpha1.QuotaDecisionSpec{
			RequestRef: quotav1alpha1.DecidedRequestRef{Name: "more", UID: uid}, Decision: quotav1alpha1.DecisionApprove,
			DecidedBy: &quotav1alpha1.RequestUser{Username: by},
		}})
	}
	for reason, tt := range map[string]struct {
		uids map[string]string
		here *unstructured.Unstructured
		want bool
	}{
		"none here":                   {map[string]string{"old": "new"}, nil, true},
		"on the same request":         {map[string]string{"old": "new"}, decision("new", "ann"), true},
		"on the original":             {map[string]string{"old": "old"}, decision("old", "ann"), true},
		"by another":                  {map[string]string{"old": "new"}, decision("new", "tom"), false},
		"on another request":          {map[string]string{"old": "new"}, decision("other", "ann"), false},
		"on a request that is absent": {map[string]string{"old": ""}, decision("other", "ann"), false},
		"on none of the backup":       {nil, decision("other", "tom"), true},
	} {
		r := &restorer{requestUIDs: tt.uids}
		if got, err := r.isSameDecision(tt.here, decision("old", "ann")); err != nil || got != tt.want {
			t.Errorf("%s: got %v, %v, want %v", reason, got, err, tt.want)
		}
	}
}
