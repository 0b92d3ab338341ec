package ledgerstore

import (
	"context"
	"slices"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/inventory"
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
// slice if its holder no longer writes. End it after [Store.AppearanceMax], and after every object possibly admitted
// by its holder is observed.
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

// EndSlice returns the quota of a revoked slice once inventory and ledger have observed each kind up to a basis, see
// [ledger.Ledger.EndSlice]. By then all requests had ended that its holder may have admitted. EndSlice reports whether
// it did, and changes nothing if the slice has changed.
func (s *Store) EndSlice(ctx context.Context, f ForeignSlice, ended map[string]ledger.Basis) (isDropped bool, err error) {
	var dropped bool
	err = s.changeSlice(ctx, f, func(l *ledger.Ledger) bool {
		switch rest, hasSeen := s.observedOf(f, l, ended); {
		case !hasSeen:
			dropped = false
		case len(rest) == 0:
			dropped = l.DropSlice(f.Holder)
		default:
			dropped = l.EndSlice(f.Holder, rest)
		}
		return dropped
	})
	return err == nil && dropped, err
}

// observedOf leaves out the kinds of which the ledger has no observation, because the consumer has nothing of them. It
// reports false if the inventory does not show that yet, or does not count a kind whose objects use the slice. Claims
// never use one.
func (s *Store) observedOf(f ForeignSlice, l *ledger.Ledger, ended map[string]ledger.Basis) (rest map[string]ledger.Basis, hasSeen bool) {
	for o := range l.Observations() {
		uses := func(d ledger.Demand) bool { return f.Amounts[d.ResourceType] > 0 }
		_, isCounted := ended[o.Kind]
		if !isCounted && o.Kind != inventory.Claims && slices.ContainsFunc(o.Demands, uses) {
			return nil, false
		}
	}

	rest = map[string]ledger.Basis{}
	for kind, basis := range ended {
		if l.Observation(kind).Kind != "" {
			rest[kind] = basis
			continue
		}
		isEmpty := false
		s.Inventory.View(kind, f.Consumer, func(o ledger.Observation, _ ledger.Observer) {
			isEmpty = o.Basis.Covers(basis) && len(o.Demands) == 0
		})
		if !isEmpty {
			return nil, false
		}
	}
	return rest, true
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
