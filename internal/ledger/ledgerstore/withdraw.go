package ledgerstore

import (
	"context"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Withdraw is [Store.Cancel] for a reservation with a claim possibly in the making. The same write withdraws its
// sequence: no ledger will have the charge of this claim. Withdraw reports whether it withdrew the sequence now or
// earlier. If not, the reservation had already ended, and its claim may have a charge.
func (s *Store) Withdraw(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64) (bool, error) {
	var isWithdrawn bool
	err := s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			hasChanged := l.Withdraw(key, sequence)
			isWithdrawn = l.IsWithdrawn(sequence)
			if hasChanged {
				return groupcommit.Changed
			}
			return groupcommit.Unconfirmed
		},
		committed: func() { s.inflight.remove(consumer, key, sequence) },
	})
	return err == nil && isWithdrawn, err
}

// TakeOver makes this process the owner of another one's reservation, perhaps with a claim in the making: it gives the
// reservation a new sequence and withdraws the former. It returns the reservation as it is now, or false if the ledger
// has none with the given sequence. Then it had ended, or an earlier attempt with a lost answer took it over.
func (s *Store) TakeOver(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64) (taken InFlight, ok bool, err error) {
	var renewed ledger.Reservation
	var isTaken bool
	err = s.do(ctx, consumer, &operation{
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			if _, isTaken = l.Renew(key, sequence); !isTaken {
				return groupcommit.Unconfirmed
			}
			renewed, _ = l.Reservation(key)
			return groupcommit.Changed
		},
		committed: func() {
			if isTaken {
				s.inflight.takeOver(consumer, renewed)
			}
		},
	})
	if err != nil || !isTaken {
		return InFlight{}, false, err
	}
	taken, ok = s.ReservationOf(consumer, key)
	return taken, ok && taken.Sequence == renewed.Sequence, nil
}

// IsWithdrawn reports whether this process knows the sequence of a reservation as withdrawn.
func (s *Store) IsWithdrawn(consumer quotav1alpha1.ConsumerRef, sequence int64) bool {
	return s.withdrawn.has(consumer, sequence)
}

// withdrawn are the known withdrawn sequences, by consumer. The zero value is empty.
type withdrawn struct {
	mu         sync.RWMutex
	byConsumer map[quotav1alpha1.ConsumerRef]ledger.SequenceSet
}

func (w *withdrawn) replace(consumer quotav1alpha1.ConsumerRef, sequences ledger.SequenceSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(sequences) == 0 {
		delete(w.byConsumer, consumer)
		return
	}
	if w.byConsumer == nil {
		w.byConsumer = map[quotav1alpha1.ConsumerRef]ledger.SequenceSet{}
	}
	w.byConsumer[consumer] = sequences
}

func (w *withdrawn) has(consumer quotav1alpha1.ConsumerRef, sequence int64) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.byConsumer[consumer].Has(sequence)
}
