package e2e

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

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

// One operator of several watches what the others write to ledgers. A single one does not, because nobody else writes.
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
	election := &operator.LeaderElection{LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 100 * time.Millisecond}
	defer runOptions(t, operator.Options{Config: config, LeaderElection: election})()
	eventually(t, func() error {
		if count.Load() == 0 {
			return errors.New("one of several operators does not watch ledgers")
		}
		return nil
	})
}
