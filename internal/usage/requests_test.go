package usage

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestRequests(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	requests := fake.NewClientBuilder().WithScheme(scheme)
	for name, tt := range map[string]struct {
		kind    string
		created int64
		state   metav1.ConditionStatus
	}{
		"new":      {"Project", 3000, ""},
		"pending":  {"Project", 2000, metav1.ConditionUnknown},
		"approved": {"Project", 1000, metav1.ConditionTrue},
		"denied":   {"User", 1000, metav1.ConditionFalse},
		"other":    {"Organization", 4000, metav1.ConditionUnknown},
	} {
		request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "acme", CreationTimestamp: metav1.Unix(tt.created, 0)}}
		request.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{APIGroup: "g", Kind: tt.kind, Name: "web"}
		if tt.state != "" {
			apimeta.SetStatusCondition(&request.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionApproved, Status: tt.state})
		}
		requests.WithObjects(request)
	}
	open := &Requests{Cache: requests.Build(), Leadership: leader(true), Log: logr.Discard()}
	want := `
# HELP quota_request_oldest_timestamp_seconds When the oldest open QuotaRequest was created, as a Unix time.
# TYPE quota_request_oldest_timestamp_seconds gauge
quota_request_oldest_timestamp_seconds{consumer_kind="Organization"} 4000
quota_request_oldest_timestamp_seconds{consumer_kind="Project"} 2000
# HELP quota_requests_open Undecided QuotaRequests.
# TYPE quota_requests_open gauge
quota_requests_open{consumer_kind="Organization"} 1
quota_requests_open{consumer_kind="Project"} 2
`
	if err := testutil.CollectAndCompare(open, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	open.Leadership = leader(false)
	if n := testutil.CollectAndCount(open); n != 0 {
		t.Errorf("another process has %d series, want none", n)
	}
}
