package ledgerstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A caller leaves at its deadline while its operation goes on. From then on it must not read anything written by the
// operation. The race detector proves it.
func TestLeavingWhileItIsDecided(t *testing.T) {
	fresh := []ledger.Reservation{reservation("new", 1)}
	apply := func(r ledgerstore.Request) func(context.Context, *process) (bool, error) {
		return func(ctx context.Context, p *process) (bool, error) {
			outcome, err := p.Apply(ctx, acme, r)
			return outcome.Code == ledger.Admitted, err
		}
	}
	tests := map[string]func(context.Context, *process) (bool, error){
		"reserve":                 apply(ledgerstore.Request{Reservations: fresh}),
		"reserve separately":      apply(ledgerstore.Request{Reservations: fresh, Separately: true, Overdraft: true}),
		"reserve, dry":            apply(ledgerstore.Request{Reservations: fresh, DryRun: ledgerstore.Dry}),
		"reserve separately, dry": apply(ledgerstore.Request{Reservations: fresh, Separately: true, DryRun: ledgerstore.Dry}),
		"Cancel": func(ctx context.Context, p *process) (bool, error) {
			return false, p.Cancel(ctx, acme, "held", 0)
		},
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			memory := storagetest.New()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			isLeaving := false
			p := start(t, memory, func(_ context.Context, call storagetest.Call) storagetest.Fault {
				if isLeaving && call == storagetest.Read {
					leave() // and then the store decides once more
				}
				return storagetest.None
			})
			p.limit(t, 10)
			p.use(t, "used", 2)
			if _, err := p.Apply(t.Context(), acme, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("held", 3)}, Overdraft: true}); err != nil {
				t.Fatal(err)
			}
			isLeaving = true
			memory.Touch(acme) // so the ledger of the first decision is not current
			result, err := call(ctx, p)
			if err != nil && (result || !errors.Is(err, context.Canceled)) {
				t.Errorf("left with %v and %v, want no result and that the context ended", result, err)
			}
			p.flush(t)
		})
	}
}
