package ledgerstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A caller whose time is up leaves while its operation goes on, and from then on looks at nothing
// that the operation writes. The race detector tells.
func TestLeavingWhileItIsDecided(t *testing.T) {
	amendment := ledger.Reservation{Key: "amending", Charges: charges(3), Replaces: charges(2)}
	tests := map[string]func(context.Context, *process) (bool, error){
		"Reserve": func(ctx context.Context, p *process) (bool, error) {
			decision, err := p.Reserve(ctx, acme, reservation("new", 1))
			return decision.Code == ledger.Admitted, err
		},
		"Adopt": func(ctx context.Context, p *process) (bool, error) {
			decision, err := p.Adopt(ctx, acme, func(context.Context) (*ledger.Reservation, error) {
				return new(reservation("new", 1)), nil
			})
			return decision.Code == ledger.Admitted, err
		},
		"Charge": func(ctx context.Context, p *process) (bool, error) {
			decisions, err := p.Charge(ctx, acme, false, []ledger.Reservation{reservation("new", 1)})
			return len(decisions) == 1 && decisions[0].Code == ledger.Admitted, err
		},
		"Check": func(ctx context.Context, p *process) (bool, error) {
			outcome, err := p.Check(ctx, acme, []ledger.Reservation{reservation("new", 1)})
			return outcome.Code == ledger.Admitted, err
		},
		"CheckAmendment": func(ctx context.Context, p *process) (bool, error) {
			decision, err := p.CheckAmendment(ctx, acme, false, amendment)
			return decision.Code == ledger.Admitted, err
		},
		"Fitting": func(ctx context.Context, p *process) (bool, error) {
			fits, err := p.Fitting(ctx, acme, []ledger.Reservation{reservation("new", 1)})
			return len(fits) == 1 && fits[0], err
		},
		"Exchange": func(ctx context.Context, p *process) (bool, error) {
			return p.SettleAmendment(ctx, acme, amendment.Key, 0, charges(3))
		},
		"Cancel": func(ctx context.Context, p *process) (bool, error) {
			return false, p.Cancel(ctx, acme, amendment.Key, 0)
		},
		"Correct": func(ctx context.Context, p *process) (bool, error) {
			return p.Correct(ctx, acme, ledger.Usage{ResourceType: gpu, Amount: 2, Claims: 1}, ledger.Usage{ResourceType: gpu, Amount: 1, Claims: 1})
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
					leave() // and then it is decided once more
				}
				return storagetest.None
			})
			p.limit(t, 10)
			p.use(t, "used", 2)
			if name != "Correct" {
				_, err := p.Amend(t.Context(), acme, true, func(_, after string) string { return after },
					func(context.Context) (*ledger.Reservation, error) { return &amendment, nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			isLeaving = true
			memory.Touch(acme) // so the books that the first decision is taken on are not current
			result, err := call(ctx, p)
			if err != nil && (result || !errors.Is(err, context.Canceled)) {
				t.Errorf("left with %v and %v, want no result and that the context ended", result, err)
			}
			p.flush(t)
		})
	}
}
