package ledgerstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// The decision on an overdraft has its shortages at once, even with expected releases.
func TestOverdraft(t *testing.T) {
	decide := func(t *testing.T, p *process, r ledgerstore.Request) ([]ledger.Decision, error) {
		outcome, err := p.Apply(t.Context(), acme, r)
		return outcome.Decisions, err
	}
	short := func(requested, used ledger.Amount) ledger.Shortage {
		return ledger.Shortage{ResourceType: gpu, Requested: requested, Used: used, Limit: 10, Matching: 10, Available: 10 - used}
	}
	tests := map[string]struct {
		reason string
		decide func(*testing.T, *process) ([]ledger.Decision, error)
		want   []ledger.Decision
		// reserved is the amount in flight afterwards.
		reserved ledger.Amount
	}{
		"charge": {
			"what fits and what does not is held, each by itself",
			func(t *testing.T, p *process) ([]ledger.Decision, error) {
				return decide(t, p, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("a", 4), reservation("b", 5), reservation("c", 2)}, Separately: true, Overdraft: true})
			},
			[]ledger.Decision{
				{Code: ledger.Admitted},
				{Code: ledger.Admitted, Shortages: []ledger.Shortage{short(5, 8)}},
				{Code: ledger.Admitted, Shortages: []ledger.Shortage{{ResourceType: gpu, Requested: 2, Used: 13, Limit: 10, Matching: 10}}},
			}, 11,
		},
		"charge, dry": {
			"nothing changes",
			func(t *testing.T, p *process) ([]ledger.Decision, error) {
				return decide(t, p, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("a", 7)}, Separately: true, Overdraft: true, DryRun: ledgerstore.Dry})
			},
			[]ledger.Decision{{Code: ledger.Admitted, Shortages: []ledger.Shortage{short(7, 4)}}}, 0,
		},
		"charge, impossible": {
			"there is nothing to hold",
			func(t *testing.T, p *process) ([]ledger.Decision, error) {
				return decide(t, p, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("a", 0)}, Separately: true, Overdraft: true})
			},
			[]ledger.Decision{{Code: ledger.AmountNotPositive}}, 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := storagetest.New()
				p := start(t, memory, nil)
				p.limit(t, 10)
				p.use(t, "k", 4)
				p.ExpectRelease(acme, "c")
				began := time.Now()
				got, err := tt.decide(t, p)
				if err != nil {
					t.Fatalf("%s: %v", tt.reason, err)
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %s, want that nothing is waited for", took)
				}
				if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(ledger.Decision{}, "Sequence"), cmpopts.EquateComparable(ledger.Dimensions{})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
				if got := stored(t, memory).Reserved; got != tt.reserved {
					t.Errorf("%s: %d is reserved, want %d", tt.reason, got, tt.reserved)
				}
			})
		})
	}
}

// Overdraft waits for room in flight all the same.
func TestOverdraftWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, storagetest.New(), nil)
		fill(t, p)
		charge := func() error {
			_, err := p.Apply(t.Context(), acme, ledgerstore.Request{Reservations: []ledger.Reservation{reservation("new", 1)}, Separately: true, Overdraft: true})
			return err
		}
		if err := charge(); !errors.Is(err, ledgerstore.ErrBusy) {
			t.Errorf("got %v, want that there is no room", err)
		}
		canceled := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			defer close(canceled)
			cancel(t, p, "full/000")
		})
		if err := charge(); err != nil {
			t.Errorf("there is room: %v", err)
		}
		<-canceled
	})
}
