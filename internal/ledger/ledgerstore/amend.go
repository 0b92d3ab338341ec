package ledgerstore

import (
	"context"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// Amend prepares a change of what a settled claim holds, see [ledger.Ledger.Amend]: by how much it
// is to grow is decided like a reservation, or held regardless of the limits if forced; then the
// decision on what does not fit is Admitted and has the shortages. An amendment that is under way is
// extended.
//
// wanted reads from the API server, not from a cache, what the claim holds, and returns nil if
// there is nothing to change any more; then nothing happens and the decision has no code. It is
// called again whenever another process may have acted in between. If an amendment is under way,
// payload makes one claim payload of that and of the new one. The caller is alone with the claim in this
// process: it holds the lock of the claim's object, see [Store.LockObject], or of the claim.
//
// What a claim that was created directly holds can only be changed once it is settled: until then the
// decision is NotHeld.
//
// Where nothing is replaced, it is a reservation that is made, or extended, in the same way.
func (s *Store) Amend(ctx context.Context, consumer quotav1alpha1.ConsumerRef, forced bool, payload func(before, after string) string, wanted func(context.Context) (*ledger.Reservation, error)) (ledger.Decision, error) {
	var decision ledger.Decision
	var amendment ledger.Reservation
	var full bool
	err := s.doVerified(ctx, consumer, func(ctx context.Context) (*operation, error) {
		decision, full = ledger.Decision{}, false
		r, err := wanted(ctx)
		if r == nil || err != nil {
			return nil, err
		}
		return &operation{
			apply: func(books *ledger.Ledger, releasing bool) effect {
				decision = ledger.Decision{}
				if full = isFull(books, unknownTo(books, []ledger.Reservation{*r})); full {
					return postponed
				}
				if isUnsettled(books, r.Key) {
					decision = ledger.Decision{Code: ledger.NotHeld}
					return unconfirmed
				}
				amending := *r
				if before, known := books.Reservation(r.Key); known {
					amending.Claim = payload(before.Claim, r.Claim)
				}
				if decision = amend(books, amending, forced); decision.Code == ledger.Admitted {
					amendment, _ = books.Reservation(r.Key)
					return changed
				}
				if decision.Code == ledger.Exceeded && releasing {
					return postponed
				}
				return unconfirmed
			},
			committed: func() {
				if decision.Code == ledger.Admitted {
					s.inflight.add(consumer, amendment)
				}
			},
		}, nil
	})
	switch {
	case err != nil:
		return ledger.Decision{}, err
	case full:
		return ledger.Decision{}, ErrBusy
	default:
		return decision, nil
	}
}

// isUnsettled tells whether an amendment is of a claim that was created directly and whose grant is in flight. Other
// claims of the consumer may hold as much, so that the books alone do not show it.
func isUnsettled(books *ledger.Ledger, key string) bool {
	if !IsAmendment(key) || ObjectUID(key) != "" {
		return false
	}
	_, known := books.Reservation(strings.TrimSuffix(key, amendmentSuffix))
	return known
}

func amend(books *ledger.Ledger, r ledger.Reservation, forced bool) ledger.Decision {
	if forced {
		return regardless(r, books.Amend, books.AmendOverdraft)
	}
	return books.Amend(r)
}

// CheckAmendment answers what Amend would, and changes nothing. r is what wanted would return.
func (s *Store) CheckAmendment(ctx context.Context, consumer quotav1alpha1.ConsumerRef, forced bool, r ledger.Reservation) (ledger.Decision, error) {
	var decision ledger.Decision
	err := s.do(ctx, consumer, &operation{
		apply: func(books *ledger.Ledger, releasing bool) effect {
			decision = books.CheckAmendment(r)
			switch {
			case decision.Code == ledger.Exceeded && forced:
				decision.Code = ledger.Admitted
			case decision.Code == ledger.Exceeded && releasing:
				return postponed
			}
			return unconfirmed
		},
	})
	if err != nil {
		return ledger.Decision{}, err
	}
	return decision, nil
}

// SettleAmendment ends an amendment once the claim says what it holds from now on, see
// [ledger.Ledger.SettleAmendment]. Sequence 0 stands for any. It reports whether it did: if not, the
// amendment is not there any more under that sequence, or the books do not have what it replaces,
// which is for the auditor to put right.
func (s *Store) SettleAmendment(ctx context.Context, consumer quotav1alpha1.ConsumerRef, key string, sequence int64, after []ledger.Charge) (bool, error) {
	var done bool
	err := s.do(ctx, consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(books *ledger.Ledger, _ bool) effect {
			if done = books.SettleAmendment(key, sequence, after); done {
				return changed
			}
			return unconfirmed
		},
		committed: func() {
			if done {
				s.inflight.remove(consumer, key, sequence)
			}
		},
	})
	return err == nil && done, err
}
