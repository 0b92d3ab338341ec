package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSumByName(t *testing.T) {
	got := sumByName(`# HELP bursar_ledger_drift_total Corrections.
# TYPE bursar_ledger_drift_total counter
bursar_ledger_drift_total{reason="a } b"} 2
bursar_ledger_drift_total{reason="c"} 1
bursar_ready 1
bursar_webhook_certificate_expiry_timestamp_seconds 1.8e+09
go_goroutines 3
`)
	want := map[string]float64{"bursar_ledger_drift_total": 3, "bursar_ready": 1, "bursar_webhook_certificate_expiry_timestamp_seconds": 1.8e9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
