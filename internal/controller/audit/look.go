package audit

import (
	"context"
	"fmt"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
)

// state is the books of a consumer, and its claims, at one look.
type state struct {
	// quiet tells whether the rest can be compared.
	quiet    bool
	sequence int64
	// used is what the books say and held what the claims hold.
	used, held []ledger.Usage
}

// look looks at a consumer.
func (a *Auditor) look(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (state, error) {
	var s state
	err := a.Ledgers.View(ctx, consumer, func(books *ledger.Ledger) {
		s.quiet, s.sequence = ledgerstore.Quiet(books), books.Sequence()
		s.used = slices.Collect(books.Used())
	})
	if err != nil {
		return state{}, fmt.Errorf("read the books: %w", err)
	}
	if !s.quiet {
		return s, nil
	}
	if s.held, err = Usage(a.Claims.ForConsumer(consumer, holds)); err != nil {
		return state{}, fmt.Errorf("add up the claims: %w", err)
	}
	return s, nil
}

func (s state) drift() []difference { return compare(s.used, s.held) }

// same tells whether nothing happened between two looks.
func (s state) same(other state) bool {
	return s.quiet == other.quiet && s.sequence == other.sequence &&
		slices.Equal(s.used, other.used) && slices.Equal(s.held, other.held)
}
