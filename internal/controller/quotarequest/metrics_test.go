package quotarequest

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestMetrics(t *testing.T) {
	policy, person := quotav1alpha1.RequestDecision{}, quotav1alpha1.RequestDecision{DecidedBy: &quotav1alpha1.RequestUser{Username: "ann"}}
	for name, tt := range map[string]struct {
		result    string
		decisions []quotav1alpha1.RequestDecision
		by        string
	}{
		"approved by a policy":        {quotav1alpha1.ReasonApproved, []quotav1alpha1.RequestDecision{policy}, "policy"},
		"approved in part by people":  {quotav1alpha1.ReasonPartiallyApproved, []quotav1alpha1.RequestDecision{person, person}, "people"},
		"denied by people":            {quotav1alpha1.ReasonDenied, []quotav1alpha1.RequestDecision{person}, "people"},
		"withdrawn after an approval": {quotav1alpha1.ReasonWithdrawn, []quotav1alpha1.RequestDecision{person}, "none"},
		"expired":                     {quotav1alpha1.ReasonExpired, nil, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(1000, 0)}}
			request.Status.Decisions = tt.decisions
			setApproved(request, tt.result, "because")
			m := NewMetrics()
			m.ended(request, time.Unix(1060, 0))
			want := `
# HELP quota_request_decisions_total Ended QuotaRequests by result, and by decider: policy, people, or none for a withdrawn or expired one.
# TYPE quota_request_decisions_total counter
quota_request_decisions_total{by="` + tt.by + `",result="` + tt.result + `"} 1
`
			if err := testutil.CollectAndCompare(m.decisions, strings.NewReader(want)); err != nil {
				t.Error(err)
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(m.seconds)
			families, err := registry.Gather()
			if err != nil || len(families) != 1 {
				t.Fatalf("got %v, error %v, want one metric of times", families, err)
			}
			if h := families[0].GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 60 {
				t.Errorf("got %d requests of %v s, want one of 60", h.GetSampleCount(), h.GetSampleSum())
			}
		})
	}
}
