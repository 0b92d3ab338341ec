package bucket

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1 "k8s.io/api/core/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// unreadable fails until it is repaired.
type unreadable struct {
	steady
	isRepaired bool
}

func (u *unreadable) View(ctx context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	if !u.isRepaired {
		return errors.New("the API server does not answer")
	}
	return u.steady.View(ctx, consumer, f)
}

// TestLag proves that the lag is the age of the oldest change that no view shows. A failed publication does not end it,
// and only the leader reports it.
func TestLag(t *testing.T) {
	scheme := runtime.NewScheme()
	must(t, errors.Join(corev1.AddToScheme(scheme), quotav1alpha1.AddToScheme(scheme)))
	synctest.Test(t, func(t *testing.T) {
		ledgers := &unreadable{steady: steady{ledger.New()}}
		c := &Controller{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Catalog: catalog.New(), Ledgers: ledgers, SystemNamespace: "system"}
		c.Start()
		if got := testutil.CollectAndCount(c.Collectors()[0]); got != 0 {
			t.Errorf("a follower has %d series, want none", got)
		}
		must(t, c.IndexExisting(t.Context()))
		lags := func(want time.Duration) {
			t.Helper()
			if got := testutil.ToFloat64(c.Collectors()[0]); got != want.Seconds() {
				t.Errorf("lag of %v s, want %v", got, want)
			}
		}
		lags(0)
		c.Changed(acme, ledgerstore.Change{})
		time.Sleep(20 * time.Second)
		c.Changed(acme, ledgerstore.Change{})
		lags(20 * time.Second)

		if err := c.publish(t.Context(), acme); err == nil {
			t.Fatal("the publication of an unreadable ledger succeeds")
		}
		lags(20 * time.Second)

		ledgers.isRepaired = true
		time.Sleep(interval)
		must(t, c.publish(t.Context(), acme))
		lags(0)
		c.queue.ShutDown()
	})
}
