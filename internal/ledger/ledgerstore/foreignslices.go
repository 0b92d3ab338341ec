package ledgerstore

import (
	"context"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// ForeignSlice is the slice of another process. The process may have ended.
type ForeignSlice struct {
	Consumer quotav1alpha1.ConsumerRef
	ledger.Slice
	// Since is a time on a monotonic clock. Since then, this process has seen no write of the ledger by the holder, and
	// the slice revoked if it is.
	Since time.Time
}

// IsStalled reports whether the holder would have written the ledger again by now.
func (f *ForeignSlice) IsStalled() bool {
	return !f.IsRevoked && time.Since(f.Since) >= SliceStalledAfter
}

// foreignSlices are the known slices of other processes. The zero value is empty.
type foreignSlices struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef][]ForeignSlice
}

// replace makes the slices of a ledger, just read or written, the known ones.
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

// forget forgets the slices of a ledger once it has none.
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

// ForeignSlices returns the slices of other processes in the ledgers of this process as preferred replica. Revoke a
// slice if its holder no longer writes. Drop it after [Store.AppearanceMax], and after every object possibly admitted
// by its holder has its charge.
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

// AppearanceMax is the longest time until the last object from a slice appears, after others saw the slice revoked: its
// holder may not know for the length of a lease.
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
