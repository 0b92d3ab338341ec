package ledgerstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// fill puts as many reservations in flight as a consumer may have.
func fill(t *testing.T, p *process) {
	t.Helper()
	p.limit(t, 10*ledgerstore.ReservationsMax)
	var all []ledger.Reservation
	for _, key := range keys("full", ledgerstore.ReservationsMax) {
		all = append(all, reservation(key, 1))
	}
	outcome, err := p.Apply(t.Context(), acme, ledgerstore.Request{Reservations: all, TakesOver: true})
	if err != nil || outcome.Code != ledger.Admitted {
		t.Fatalf("fill: %s, %v", outcome.Code, err)
	}
}

func TestTooManyInFlight(t *testing.T) {
	tests := map[string]struct {
		reason   string
		makeRoom func(*testing.T, *process)
		want     error
		wantTook time.Duration
	}{
		"no room is made": {
			reason:   "waiting for room is bounded and never ends in a denial",
			makeRoom: func(*testing.T, *process) {},
			want:     ledgerstore.ErrBusy, wantTook: 3 * time.Second,
		},
		"one is cancelled": {
			reason:   "cancelling makes room at once",
			makeRoom: func(t *testing.T, p *process) { cancel(t, p, "full/000") },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, storagetest.New(), nil)
				fill(t, p)
				began, done := time.Now(), make(chan error, 1)
				go func() { _, err := storagetest.Reserve(t.Context(), p, acme, reservation("new", 1)); done <- err }()
				synctest.Wait()
				tt.makeRoom(t, p)
				if err := <-done; !errors.Is(err, tt.want) {
					t.Errorf("%s: got error %v, want %v", tt.reason, err, tt.want)
				}
				if took := time.Since(began); took != tt.wantTook {
					t.Errorf("%s: took %s, want %s", tt.reason, took, tt.wantTook)
				}
			})
		})
	}
}

func TestKnownReservationNeedsNoRoom(t *testing.T) {
	p := start(t, storagetest.New(), nil)
	fill(t, p)
	if decision := p.reserve(t, "full/007", 1); !decision.Existing {
		t.Errorf("decided %+v, want the existing reservation", decision)
	}
}

// A failed commit may admit a request, and its repetition find no room. The first decision must leave no trace.
func TestNoRoomAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, open := storagetest.New(), make(gate)
		p, other := start(t, memory, open.faults), start(t, memory, nil)
		other.limit(t, 10)
		done := make(chan error, 1)
		go func() { _, err := storagetest.Reserve(t.Context(), p, acme, reservation("p/new", 1)); done <- err }()
		synctest.Wait()
		fill(t, other)
		close(open)
		if err := <-done; !errors.Is(err, ledgerstore.ErrBusy) {
			t.Errorf("got error %v, want %v", err, ledgerstore.ErrBusy)
		}
		if got := p.ReservationsFor("new"); len(got) != 0 {
			t.Errorf("the process believes in %v", got)
		}
	})
}
