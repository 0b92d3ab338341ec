package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestParseMetrics(t *testing.T) {
	got, err := parseMetrics([]byte(`# HELP bursar_ledger_drift_total Corrections.
# TYPE bursar_ledger_drift_total counter
bursar_ledger_drift_total{reason="a } b"} 2
bursar_ledger_drift_total{reason="c"} 1
# TYPE bursar_ready gauge
bursar_ready 1
bursar_webhook_certificate_expiry_timestamp_seconds 1.8e+09
go_goroutines 3
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"bursar_ledger_drift_total": 3, "bursar_ready": 1, "bursar_webhook_certificate_expiry_timestamp_seconds": 1.8e9}
	if diff := cmp.Diff(want, got.sums); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := parseMetrics([]byte("<html>\n")); err == nil {
		t.Error("a page in HTML passed as metrics")
	}
}

func TestFailures(t *testing.T) {
	ready := metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	broken := metav1.Condition{Type: quotav1alpha1.ConditionApplicable, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonEvaluationFailed, Message: "no such key"}
	notAllowed := metav1.Condition{Type: quotav1alpha1.ConditionApplicable, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonClaimNotAllowed}
	works := &quotav1alpha1.EvaluationStatus{LastSuccessTime: &metav1.Time{}}
	for name, tt := range map[string]struct {
		reason     string
		conditions []metav1.Condition
		evaluation *quotav1alpha1.EvaluationStatus
		want       State
	}{
		"Works":       {"nothing failed", []metav1.Condition{ready}, nil, OK},
		"New":         {"the operator may be down", nil, nil, Failed},
		"WrongObject": {"it worked for a later object", []metav1.Condition{ready, broken}, works, Warning},
		"WrongPolicy": {"it has not worked since", []metav1.Condition{ready, broken}, &quotav1alpha1.EvaluationStatus{}, Failed},
		"NotAllowed":  {"a registration denies all its claims", []metav1.Condition{ready, notAllowed}, works, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			var f failures
			f.add("ClaimCreationPolicy p", true, tt.conditions, tt.evaluation)
			if got := f.check("policies").State; got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.reason, got, tt.want)
			}
		})
	}
}
