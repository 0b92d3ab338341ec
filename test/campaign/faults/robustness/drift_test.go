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

// cleanAudits finds how many ledgers were audited and found in order.
var cleanAudits = regexp.MustCompile(`(?m)^bursar_ledger_audits_total\{result="clean"\} (\d+)$`)

// drift finds that ledgers were not in order.
var drift = regexp.MustCompile(`(?m)^bursar_ledger_drift_total\{.*\} [^0]`)

// checkDrift waits for the audit that begins when a server starts, and fails if this one, or one
// before, had to put one of so many ledgers right: drift that was repaired is a bug all the same.
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
