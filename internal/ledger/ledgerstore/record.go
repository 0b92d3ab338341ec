package ledgerstore

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// record returns the operation to move a reservation, admitted at a time, from the slice to the ledger.
func (c *committer) record(r ledger.Reservation, admitted time.Time) *operation {
	var held ledger.Reservation
	var isOwn, isOver bool
	return &operation{
		maxDelay: c.recordDelay(time.Now()),
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			held, isOwn, isOver = ledger.Reservation{}, true, false
			before, isReserved := l.Reservation(r.Key)

			var effect groupcommit.Effect
			switch {
			case isReserved:
				effect, isOwn = c.recordAgain(l, before, r)
			case c.isSliceLost(l, admitted):
				// Another process revoked the slice long ago, and every object counts.
				isOver = true
				c.escrow.noteRecorded(r.Charges)
			default:
				effect, isOver = c.recordAwaiting(l, r)
			}

			if effect != groupcommit.Nothing {
				held, _ = l.Reservation(r.Key)
			}
			return effect
		},
		committed: func() {
			if held.Key == "" && !isOver {
				// The ledger no longer has a place for the admitted reservation. The slice covers it until there is
				// one.
				c.commitLater(c.record(r, admitted))
				return
			}

			c.escrow.forget([]ledger.Reservation{r})
			if isOver {
				c.store.inflight.remove(c.consumer, r.Key, 0)
				return
			}

			c.store.inflight.add(c.consumer, held, isOwn)
			c.store.recorded(c.consumer, held.Key)
		},
	}
}

// recordAgain records an admission that the ledger has already: by an earlier attempt to record it, whose answer was
// lost, or by another replica that has decided on the same request.
func (c *committer) recordAgain(l *ledger.Ledger, before, r ledger.Reservation) (effect groupcommit.Effect, isOwn bool) {
	switch {
	case isSameRequest(&before, &r):
		l.Renew(r.Key, 0)
	case !isEnough(&before, &r):
		return c.raiseFromSlice(l, before, r), true
	default:
		c.escrow.noteRecorded(r.Charges)
		return groupcommit.Unconfirmed, false
	}
	c.escrow.noteRecorded(r.Charges)
	return groupcommit.Changed, true
}

// isSameRequest reports whether two reservations with the same key are from the same request, apart from the sequence.
func isSameRequest(a, b *ledger.Reservation) bool {
	return a.ReservedAt == b.ReservedAt && a.Claim == b.Claim && slices.Equal(a.Charges, b.Charges) && ptr.Equal(a.Awaits, b.Awaits)
}

// isSliceLost reports whether another process revoked and dropped the slice under an admission. Dropping takes longer
// than the longest create.
func (c *committer) isSliceLost(l *ledger.Ledger, admitted time.Time) bool {
	_, has := l.Slice(c.store.holder)
	return !has && time.Since(admitted) > c.store.ReservationLifetime
}
