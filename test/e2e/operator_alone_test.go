package e2e

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	admission "github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/server"
)

// ledgerWatches counts the watches of all ledgers.
type ledgerWatches struct {
	http.RoundTripper
	count *atomic.Int32
}

func (w ledgerWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/consumerledgers") && r.URL.Query().Has("watch") {
		w.count.Add(1)
	}
	return w.RoundTripper.RoundTrip(r)
}

// One of several operators watches the others' writes to ledgers. A single one does not, because nobody else writes.
func TestWatchesLedgersOfOthersOnly(t *testing.T) {
	t.Parallel()
	reached, err := server.Connect(startPlane(t).AdminKubeconfigPath())
	must(t, err)
	var count atomic.Int32
	config := rest.CopyConfig(reached.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return ledgerWatches{next, &count} })

	stop := runOptions(t, operator.Options{Config: config, InstallCRDs: true})
	stop()
	if got := count.Load(); got > 0 {
		t.Errorf("a single operator watches ledgers %d times, want 0", got)
	}
	election := &operator.LeaderElection{LeaseDuration: 15 * time.Second, RenewDeadline: 12 * time.Second, RetryPeriod: 100 * time.Millisecond}
	defer runOptions(t, operator.Options{Config: config, LeaderElection: election, Webhooks: admission.Options{PeerAddress: "localhost:1"}})()
	eventually(t, func() error {
		if count.Load() == 0 {
			return errors.New("one of several operators does not watch ledgers")
		}
		return nil
	})
}

// A replica that others cannot reach would believe itself alone and take over their work, so it does not start.
func TestNeedsAnAddressForOtherReplicas(t *testing.T) {
	t.Parallel()
	_, err := operator.New(operator.Options{Config: &rest.Config{Host: "localhost:1"}, LeaderElection: &operator.LeaderElection{}})
	if err == nil || !strings.Contains(err.Error(), "POD_IP") {
		t.Errorf("one of several replicas without an address: got %v, want an error that says what to set", err)
	}
}

// The ledgers of a single server have no watch cache. People may still list and watch them.
func TestLedgersCanBeWatched(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	var ledgers quotav1alpha1.ConsumerLedgerList
	must(w, admin.List(w.ctx, &ledgers))
	name := naming.Ledger(w.consumer())
	if !slices.ContainsFunc(ledgers.Items, func(l quotav1alpha1.ConsumerLedger) bool { return l.Name == name }) {
		t.Fatalf("no ledger %s among %d that are listed", name, len(ledgers.Items))
	}
	seconds := int64(60)
	events, err := admin.Watch(w.ctx, &ledgers, client.MatchingFields{"metadata.name": name},
		&client.ListOptions{Raw: &metav1.ListOptions{TimeoutSeconds: &seconds}})
	must(w, err)
	defer events.Stop()
	w.mustCreate(w.configMap("a"))
	for event := range events.ResultChan() {
		ledger, ok := event.Object.(*quotav1alpha1.ConsumerLedger)
		if !ok || ledger.Name != name {
			t.Fatalf("got the event %s of %T, want changes of the ledger %s alone", event.Type, event.Object, name)
		}
		for _, o := range ledger.Spec.Observations {
			if len(o.Demands) == 1 && o.Demands[0].Amount == 1 {
				return
			}
		}
	}
	t.Error("the watch ended before the ledger showed what is used")
}
