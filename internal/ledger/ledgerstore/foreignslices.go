package ledgerstore

import (
	"context"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// ForeignSlice is the slice of another process, which may have ended.
type ForeignSlice struct {
	Consumer quotav1alpha1.ConsumerRef
	ledger.Slice
	// Since is the time since which this process knows that the holder has not written the ledger, and that the slice is
	// revoked if it is, on a monotonic clock.
	Since time.Time
}

// IsStalled reports whether the holder would have written the ledger again by now.
func (f *ForeignSlice) IsStalled() bool {
	return !f.IsRevoked && time.Since(f.Since) >= SliceStalledAfter
}

// foreignSlices are the slices of other processes that this process knows of. The zero value is empty.
type foreignSlices struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef][]ForeignSlice
}

// replace makes the slices of a ledger that was read or written the known ones.
func (f *foreignSlices) replace(consumer quotav1alpha1.ConsumerRef, l *ledger.Ledger, holder string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.byConsumer[consumer]
	var after []ForeignSlice
	for s := range l.Slices() {
		if s.Holder == holder {
			continue
		}
		known := ForeignSlice{Consumer: consumer, Slice: s, Since: time.Now()}
		for i := range before {
			if b := &before[i]; b.Holder == s.Holder && b.WrittenAt == s.WrittenAt && b.IsRevoked == s.IsRevoked {
				known.Since = b.Since
			}
		}
		after = append(after, known)
	}
	if len(after) == 0 {
		delete(f.byConsumer, consumer)
		return
	}
	if f.byConsumer == nil {
		f.byConsumer = map[quotav1alpha1.ConsumerRef][]ForeignSlice{}
	}
	f.byConsumer[consumer] = after
}

// forget forgets the slices of a ledger that has none any more.
func (f *foreignSlices) forget(consumer quotav1alpha1.ConsumerRef) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byConsumer, consumer)
}

func (f *foreignSlices) has(consumer quotav1alpha1.ConsumerRef) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byConsumer[consumer]) > 0
}

// ForeignSlices returns the slices of other processes in the ledgers that this process is the preferred replica for. A
// slice whose holder does not write any more is to be revoked. It is to be dropped after [Store.AppearanceMax], and
// after every object that its holder may have admitted has been charged.
func (s *Store) ForeignSlices() []ForeignSlice {
	s.foreign.mu.Lock()
	defer s.foreign.mu.Unlock()
	var all []ForeignSlice
	for consumer, known := range s.foreign.byConsumer {
		if s.Replicas == nil || s.Replicas.IsPreferred(consumer) {
			all = append(all, known...)
		}
	}
	return all
}

// AppearanceMax is the time after which every object has appeared that was admitted from a slice before others saw it
// revoked: its holder may not know for the length of a lease.
func (s *Store) AppearanceMax() time.Duration { return sliceLease + s.ReservationLifetime }

// RevokeSlice revokes a slice, unless its holder has written the ledger since.
func (s *Store) RevokeSlice(ctx context.Context, f ForeignSlice) error {
	return s.changeSlice(ctx, f, func(l *ledger.Ledger) bool { return l.RevokeSlice(f.Holder) })
}

// DropSlice returns the quota of a revoked slice, unless the slice has changed. It reports whether it did.
func (s *Store) DropSlice(ctx context.Context, f ForeignSlice) (isDropped bool, err error) {
	var dropped bool
	err = s.changeSlice(ctx, f, func(l *ledger.Ledger) bool {
		dropped = l.DropSlice(f.Holder)
		return dropped
	})
	return err == nil && dropped, err
}

func (s *Store) changeSlice(ctx context.Context, f ForeignSlice, change func(*ledger.Ledger) bool) error {
	return s.do(ctx, f.Consumer, &operation{
		makesRoom: true, growsCapacity: true,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			is, ok := l.Slice(f.Holder)
			if !ok || is.WrittenAt != f.WrittenAt || is.IsRevoked != f.IsRevoked || !change(l) {
				return groupcommit.Unconfirmed
			}
			return groupcommit.Changed
		},
	})
}
