package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// The auditor corrects altered ledgers in both directions, and reports it in an event.
func TestAuditRepairsAlteredLedgers(t *testing.T) {
	t.Parallel()
	for name, delta := range map[string]int64{"too much": 3, "too little": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimedWorld(t, 5)
			w.alters()
			for i := range 2 {
				w.mustCreate(w.configMap(fmt.Sprintf("map-%d", i)))
			}
			eventually(w, func() error { return w.wantQuietLedger(2) })

			w.alterLedger(func(ledger *quotav1alpha1.ConsumerLedger) { ledger.Spec.Used[0].Amount += delta })
			eventually(w, func() error { return w.wantQuietLedger(2) })
			w.wantBucket(5, 2, 3, 2)
			eventually(w, w.wantDriftEvent)
		})
	}
}

// The ledger of counted objects is what exists again, soon after somebody has altered it.
func TestAlteredObservationsAreMended(t *testing.T) {
	t.Parallel()
	for name, delta := range map[string]int64{"too much": 3, "too little": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newProtectedWorld(t, 5)
			for i := range 2 {
				w.mustCreate(w.configMap(fmt.Sprintf("map-%d", i)))
			}
			eventually(w, func() error { return w.wantObserved(2) })

			w.alterLedger(func(ledger *quotav1alpha1.ConsumerLedger) { ledger.Spec.Observations[0].Demands[0].Amount += delta })
			eventually(w, func() error { return w.wantObserved(2) })
			w.wantBucket(5, 2, 3, 2)
		})
	}
}

// observedIn returns what a ledger has observed of objects and of claims.
func observedIn(ledger *quotav1alpha1.ConsumerLedger) (sum int64) {
	for _, o := range ledger.Spec.Observations {
		for _, d := range o.Demands {
			sum += d.Amount
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

// wantQuietLedger checks that the ledger has no reservation in flight, and so much in use.
func (w *world) wantQuietLedger(used int64) error {
	ledger := &quotav1alpha1.ConsumerLedger{}
	if err := admin.Get(w.ctx, client.ObjectKey{Name: naming.Ledger(w.consumer())}, ledger); err != nil {
		return err
	}
	sum := observedIn(ledger)
	for _, u := range ledger.Spec.Used {
		sum += u.Amount
	}
	if len(ledger.Spec.Reservations) > 0 || sum != used {
		return fmt.Errorf("the ledger says %+v, with %d reservations; want %d used and none", ledger.Spec, len(ledger.Spec.Reservations), used)
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

// altered holds the names of the ledgers altered on purpose.
var altered sync.Map

// alters marks the world's ledger as different from its claims on purpose.
func (w *world) alters() { altered.Store(naming.Ledger(w.consumer()), true) }

func (w *world) wantDriftEvent() error {
	drifted, err := ledgersThatDrifted(w.ctx)
	if err == nil && !slices.Contains(drifted, naming.Ledger(w.consumer())) {
		return errors.New("no event tells of the drift")
	}
	return err
}

// checkDrift fails if the auditor, running during all tests, found drift that no test caused on purpose.
func checkDrift(ctx context.Context) error {
	drifted, err := ledgersThatDrifted(ctx)
	if err != nil {
		return err
	}
	for _, name := range drifted {
		if _, ok := altered.Load(name); !ok {
			return fmt.Errorf("ledger %s has drifted from the claims by itself", name)
		}
	}
	return nil
}

func ledgersThatDrifted(ctx context.Context) ([]string, error) {
	var events eventsv1.EventList
	if err := admin.List(ctx, &events, client.MatchingFields{"reason": quotav1alpha1.EventLedgerDrift}); err != nil {
		return nil, err
	}
	var names []string
	for _, event := range events.Items {
		names = append(names, event.Regarding.Name)
	}
	return names, nil
}
