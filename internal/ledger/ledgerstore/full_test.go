package ledgerstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// Only the rejected operation fails, not the others of the same write.
func TestRejectedForContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const used = 20
		memory, shut := storagetest.New(), make(gate)
		memory.Accepts = func(b ledger.Snapshot) bool {
			for _, r := range b.Reservations {
				if strings.Contains(r.Claim, "large") {
					return false
				}
			}
			return true
		}
		start(t, memory, nil).limit(t, 100)
		first := start(t, memory, nil)
		for i := range used {
			first.reserve(t, fmt.Sprint("p/", i), 1)
		}
		p := start(t, memory, shut.faults)
		errs := make(chan error, 2*used)
		go func() { _, err := storagetest.Reserve(t.Context(), p, acme, reservation("p/first", 1)); errs <- err }()
		synctest.Wait() // the write of the first is under way, and all others share the next
		for i := range used {
			go func() {
				errs <- p.Cancel(t.Context(), acme, fmt.Sprint("p/", i), 0)
			}()
		}
		bad := make(chan error, 2)
		for i := range 2 {
			r := reservation(fmt.Sprint("p/large", i), 1)
			r.Claim = "large"
			go func() { _, err := storagetest.Reserve(t.Context(), p, acme, r); bad <- err }()
		}
		synctest.Wait()
		close(shut)
		for range used + 1 {
			if err := <-errs; err != nil {
				t.Errorf("failed with what storage did not take: %v", err)
			}
		}
		for range 2 {
			if err, rejected := <-bad, (*ledgerstore.RejectedError)(nil); !errors.As(err, &rejected) {
				t.Errorf("what storage does not take ended with %v", err)
			}
		}
		if got := stored(t, memory); len(got.Keys) != 1 {
			t.Errorf("stored is %+v", got)
		}
	})
}

// A request gets LedgerFull only if it would not fit with nothing in flight either.
func TestLedgerFullOrBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, storagetest.New(), nil)
		p.limit(t, 1000)
		large := func(key string, charges []ledger.Charge) ledger.Reservation {
			return ledger.Reservation{Key: key, Charges: charges, Claim: strings.Repeat("x", ledger.ClaimBytesMax)}
		}
		for i := range 7 {
			if d, err := storagetest.Reserve(t.Context(), p, acme, large(fmt.Sprint("p/", i), charges(1))); err != nil || d.Code != ledger.Admitted {
				t.Fatal(d.Code, err)
			}
		}
		if _, err := storagetest.Reserve(t.Context(), p, acme, large("p/more", charges(1))); !errors.Is(err, ledgerstore.ErrBusy) {
			t.Errorf("while much is in flight: %v, want %v", err, ledgerstore.ErrBusy)
		}
		quotes := reservation("p/quotes", 1)
		quotes.Claim = strings.Repeat("<", ledger.ClaimBytesMax)
		for i := range 7 {
			cancel(t, p, fmt.Sprint("p/", i))
		}
		p.fillBalances(t, ledger.BytesMax-ledger.ClaimBytesMax)
		if d, err := storagetest.Reserve(t.Context(), p, acme, quotes); err != nil || d.Code != ledger.LedgerFull {
			t.Errorf("at rest: %s, %v, want %s", d.Code, err, ledger.LedgerFull)
		}
		if d := p.reserve(t, "p/small", 1); d.Code != ledger.Admitted {
			t.Errorf("a small one: %s", d.Code)
		}
	})
}

// fillBalances has an object demand other resource types until the ledger has some size.
func (p *process) fillBalances(t *testing.T, size int) {
	t.Helper()
	var all []ledger.Charge
	for i := 0; ; i++ {
		var have int
		if err := p.View(t.Context(), acme, func(l *ledger.Ledger) { have = l.Bytes() }); err != nil {
			t.Fatal(err)
		}
		if have >= size {
			return
		}
		for j := range 50 {
			d, err := ledger.NewDimensions(map[string]string{"volume": fmt.Sprintf("%0*d", ledger.DimensionValueBytesMax, 50*i+j)})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ledger.Charge{ResourceType: fmt.Sprint("t", i), Dimensions: d, Amount: 1})
		}
		full := objectOf("full", nextVersion(), 0)
		full.Demands[0].Charges = slices.Clone(all)
		p.Inventory.(*inventoryOf).kind(widgets).Set(full)
		p.observed(t, "full")
	}
}

// The largest ledgers have series of their own, and only those.
func TestLedgerSizes(t *testing.T) {
	memory := storagetest.New()
	p := start(t, memory, nil)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(p.Collectors()...)
	for i := range 12 {
		consumer := acme
		consumer.Name = fmt.Sprint("full-", i)
		memory.Fill(consumer)
		if err := p.View(t.Context(), consumer, func(*ledger.Ledger) {}); err != nil {
			t.Fatal(err)
		}
	}
	p.limit(t, 1)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, family := range families {
		series[family.GetName()] = len(family.GetMetric())
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "consumer_name" && label.GetValue() == acme.Name {
					t.Error("a small ledger has a series of its own")
				}
			}
			if strings.HasPrefix(family.GetName(), "bursar_ledger_bytes") && metric.GetGauge().GetValue() < ledger.BytesMax {
				t.Errorf("%s of a full ledger is %v", family.GetName(), metric.GetGauge().GetValue())
			}
		}
	}
	if series["bursar_ledger_bytes"] != 10 || series["bursar_ledger_bytes_max"] != 1 {
		t.Errorf("the series are %v", series)
	}
}
