package ledgerstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// gauge returns a metric without labels.
func (p *process) gauge(t *testing.T, name string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(p.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// The store drops unused ledgers, also those of consumers that never existed, but not while something is in flight.
func TestIdleLedgersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := storagetest.New()
		p := start(t, memory, nil)
		p.limit(t, 10)
		p.reserve(t, "policy/object", 1)
		madeUp := acme
		madeUp.Name = "nobody"
		if _, err := p.Apply(t.Context(), madeUp, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("k", 1)}, DryRun: ledgerstore.Dry}); err != nil {
			t.Fatal(err)
		}
		p.ReleaseDone(quotav1alpha1.ConsumerRef{Name: "never-heard-of"}, "id")
		if held := p.gauge(t, "bursar_ledgers_in_memory"); held != 2 {
			t.Errorf("%v ledgers are held, want 2", held)
		}
		time.Sleep(10 * time.Minute)
		if held := p.gauge(t, "bursar_ledgers_in_memory"); held != 1 {
			t.Errorf("%v ledgers are held, want the one with a reservation", held)
		}
		cancel(t, p, "policy/object")
		time.Sleep(10 * time.Minute)
		if held := p.gauge(t, "bursar_ledgers_in_memory"); held != 0 {
			t.Errorf("%v ledgers are held, want none", held)
		}
		other := start(t, memory, nil)
		other.reserve(t, "policy/another", 10)
		if d := p.reserve(t, "policy/third", 1); d.Code != ledger.Exceeded {
			t.Errorf("decided %s although another process took the rest", d.Code)
		}
		if got := p.ReservationsFor("another"); len(got) != 1 {
			t.Errorf("the reservation of the other process is not known: %v", got)
		}
	})
}
