package robustness

import (
	"fmt"
	"regexp"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/process"
)

// cleanAudits finds the number of clean audits of ledgers.
var cleanAudits = regexp.MustCompile(`(?m)^bursar_ledger_audits_total\{result="clean"\} (\d+)$`)

// drift finds repaired ledgers.
var drift = regexp.MustCompile(`(?m)^bursar_ledger_drift_total\{.*\} [^0]`)

// checkDrift waits for the audit at the start of a server. It fails if this audit, or one before, had to repair one of
// so many ledgers: repaired drift is a bug all the same.
func checkDrift(t *testing.T, server *process.Server, ledgers int) {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			return err
		}
		if found := cleanAudits.FindSubmatch(metrics); found == nil || string(found[1]) != fmt.Sprint(ledgers) {
			return fmt.Errorf("not all %d ledgers were found in order: %s", ledgers, found)
		}
		if drift.Match(metrics) {
			t.Error("the audit found drift")
		}
		return nil
	})
	var events eventsv1.EventList
	if err := connect(t, server).List(t.Context(), &events); err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		if event.Reason == quotav1alpha1.EventLedgerDrift {
			t.Errorf("drift was found: %s", event.Note)
		}
	}
}
