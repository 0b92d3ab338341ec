package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/naming"
)

// A ledger is what exists again, soon after somebody has altered it.
func TestAlteredLedgersAreMended(t *testing.T) {
	t.Parallel()
	for kind, newWorld := range map[string]func(*testing.T, int64) *world{"objects": newProtectedWorld, "claims": newClaimedWorld} {
		for name, delta := range map[string]int64{"too much": 3, "too little": -1} {
			t.Run(name+" for "+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 5)
				for i := range 2 {
					w.mustCreate(w.configMap(fmt.Sprintf("map-%d", i)))
				}
				eventually(w, func() error { return w.wantObserved(2) })

				w.alterLedger(func(ledger *quotav1alpha1.ConsumerLedger) {
					for i := range ledger.Spec.Observations {
						if demands := ledger.Spec.Observations[i].Demands; len(demands) > 0 {
							demands[0].Amount += delta
						}
					}
				})
				eventually(w, func() error { return w.wantObserved(2) })
				w.wantBucket(5, 2, 3, 2)
			})
		}
	}
}

// observedIn returns what a ledger has observed of objects and of claims.
func observedIn(ledger *quotav1alpha1.ConsumerLedger) int64 { return observedOf(ledger, "") }

// observedOf returns what a ledger has observed of a kind, or of all.
func observedOf(ledger *quotav1alpha1.ConsumerLedger, kind string) (sum int64) {
	for _, o := range ledger.Spec.Observations {
		for _, d := range o.Demands {
			if kind == "" || kind == o.Kind {
				sum += d.Amount
			}
		}
	}
	return sum
}

// wantObserved checks that the ledger has no reservation in flight, and what its objects demand.
func (w *world) wantObserved(amount int64) error {
	ledger := &quotav1alpha1.ConsumerLedger{}
	if err := admin.Get(w.ctx, client.ObjectKey{Name: naming.Ledger(w.consumer())}, ledger); err != nil {
		return err
	}
	if sum := observedIn(ledger); len(ledger.Spec.Reservations) > 0 || sum != amount {
		return fmt.Errorf("objects demand %d by the ledger, with %d reservations; want %d and none", sum, len(ledger.Spec.Reservations), amount)
	}
	return nil
}

// alterLedger changes the world's ledger as Bursar. Nobody else may.
func (w *world) alterLedger(change func(*quotav1alpha1.ConsumerLedger)) {
	w.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ledger := &quotav1alpha1.ConsumerLedger{}
		if err := bursar.Get(w.ctx, client.ObjectKey{Name: naming.Ledger(w.consumer())}, ledger); err != nil {
			return err
		}
		change(ledger)
		return bursar.Update(w.ctx, ledger)
	})
	if err != nil {
		w.Fatalf("alter the ledger: %v", err)
	}
}

// checkLedgers waits until every ledger has observed the claims of record that exist after all tests.
func checkLedgers(ctx context.Context) error {
	var differs error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		differs = compareLedgers(ctx)
		return differs == nil, nil
	})
	return cmp.Or(differs, err)
}

// compareLedgers compares what the ledgers have observed of claims with the claims of record.
func compareLedgers(ctx context.Context) error {
	var ledgers quotav1alpha1.ConsumerLedgerList
	var all quotav1alpha1.ResourceClaimList
	if err := errors.Join(admin.List(ctx, &ledgers), admin.List(ctx, &all, client.MatchingLabelsSelector{Selector: claimcache.OfRecord()})); err != nil {
		return err
	}
	demanded, ids := map[string]int64{}, map[string]bool{}
	for i := range all.Items {
		claim := claimcache.Compact(&all.Items[i])
		id := claims.IDOf(claim)
		if ids[id] {
			continue // a second claim of one object does not count
		}
		ids[id] = true
		charges, err := claims.ChargesOf(claim)
		if err != nil {
			return err
		}
		for _, charge := range charges {
			demanded[naming.Ledger(claim.Consumer())] += int64(charge.Amount)
		}
	}
	for i := range ledgers.Items {
		ledger := &ledgers.Items[i]
		if observed := observedOf(ledger, inventory.Claims); observed != demanded[ledger.Name] {
			return fmt.Errorf("ledger %s has observed claims for %d, and there are claims for %d", ledger.Name, observed, demanded[ledger.Name])
		}
	}
	return nil
}
