package audit

import (
	"context"
	"fmt"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// state is the books of a consumer, and its claims, at one look.
type state struct {
	// quiet tells whether nothing is in flight.
	quiet    bool
	sequence int64
	flight   flight
	// used is what the books say and held what they should, by the claims.
	used, held []ledger.Usage
	// isUnclear is set if the claims do not tell what the books should say, with what is in flight.
	isUnclear bool
}

// look looks at a consumer.
func (a *Auditor) look(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (state, error) {
	s, err := a.view(ctx, consumer)
	if err != nil {
		return state{}, err
	}
	s.held, err = s.flight.usage(a.Claims.ForConsumer(consumer, holds))
	switch {
	case err != nil && s.quiet:
		return state{}, fmt.Errorf("add up the claims: %w", err)
	case err != nil:
		s.isUnclear = true
	}
	return s, nil
}

// view looks at the books of a consumer.
func (a *Auditor) view(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (state, error) {
	var s state
	err := a.Ledgers.View(ctx, consumer, func(books *ledger.Ledger) {
		s = state{quiet: ledgerstore.Quiescent(books), sequence: books.Sequence(), flight: flightOf(books), used: slices.Collect(books.Used())}
	})
	if err != nil {
		return state{}, fmt.Errorf("read the books: %w", err)
	}
	return s, nil
}

func (s state) drift() []difference { return compare(s.used, s.held) }

// same tells whether nothing happened between two looks.
func (s state) same(other state) bool {
	return s.quiet == other.quiet && s.sequence == other.sequence && s.flight.same(other.flight) &&
		slices.Equal(s.used, other.used) && slices.Equal(s.held, other.held)
}
