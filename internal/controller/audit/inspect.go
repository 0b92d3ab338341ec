package audit

import (
	"context"
	"fmt"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/tally"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// state is the ledger of a consumer and its claims at one read.
type state struct {
	// quiescent reports whether nothing is in flight.
	quiescent bool
	sequence  int64
	inFlight  tally.InFlight
	// used is the usage in the ledger, and held the usage by the claims.
	used, held []ledger.Usage
}

// inspect reads the ledger of a consumer and compares it with the cached claims.
func (a *Auditor) inspect(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (state, error) {
	s, err := a.view(ctx, consumer)
	if err != nil {
		return state{}, err
	}
	if s.held, err = s.inFlight.Usage(a.Claims.ForConsumer(consumer, tally.Holds)); err != nil {
		return state{}, fmt.Errorf("add up the claims: %w", err)
	}
	return s, nil
}

// view reads the ledger of a consumer.
func (a *Auditor) view(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (state, error) {
	var s state
	err := a.Ledgers.View(ctx, consumer, func(snapshot *ledger.Ledger) {
		s = state{quiescent: ledgerstore.Quiescent(snapshot), sequence: snapshot.Sequence(), inFlight: tally.InFlightOf(snapshot), used: slices.Collect(snapshot.Used())}
	})
	if err != nil {
		return state{}, fmt.Errorf("read the ledger: %w", err)
	}
	return s, nil
}

// agrees reports whether the ledger and the claims agree.
func (s state) agrees() bool { return len(tally.Compare(s.used, s.held)) == 0 }

// same reports whether nothing happened to the ledger between two reads.
func (s state) same(other state) bool {
	return s.quiescent == other.quiescent && s.sequence == other.sequence && s.inFlight.Same(other.inFlight) &&
		slices.Equal(s.used, other.used)
}
