package grant

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// storedMax is how long Stored remembers the stored grants. The reconciler finishes all consumers long before.
const storedMax = time.Minute

// Stored remembers the grants in the listed ledgers. At a start, only consumers with other grants cause requests to the
// API server: while this replica leads, no other one changes the grants in ledgers.
type Stored struct {
	complete chan struct{}
	totals   *Totals
	seed     maphash.Seed
	mu       sync.Mutex
	digests  map[quotav1alpha1.ConsumerRef]uint64
}

// NewStored returns an empty Stored. It fills totals.
func NewStored(totals *Totals) *Stored {
	return &Stored{complete: make(chan struct{}), totals: totals, seed: maphash.MakeSeed(), digests: map[quotav1alpha1.ConsumerRef]uint64{}}
}

// Add records the grants in the ledger of a consumer.
func (s *Stored) Add(consumer quotav1alpha1.ConsumerRef, grants []ledger.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.digests[consumer] = s.digest(grants)
	s.totals.hold(consumer, sumsOf(grants...))
	s.totals.keepSelective(consumer, grants)
}

// Complete records the end of the additions of ledgers.
func (s *Stored) Complete() {
	close(s.complete)
	time.AfterFunc(storedMax, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.digests = nil
	})
}

// Completed returns a channel. It closes after the addition of all ledgers.
func (s *Stored) Completed() <-chan struct{} { return s.complete }

// holds reports whether the ledger of a consumer certainly holds these grants. If not, it forgets the ledger, because
// the caller is about to change it.
func (s *Stored) holds(consumer quotav1alpha1.ConsumerRef, grants []ledger.Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if digest, ok := s.digests[consumer]; ok && digest == s.digest(grants) {
		return true
	}
	delete(s.digests, consumer)
	return false
}

// digest returns a hash of grants, independent of their order.
func (s *Stored) digest(grants []ledger.Grant) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, g := range slices.SortedFunc(slices.Values(grants), func(a, b ledger.Grant) int { return cmp.Compare(a.UID, b.UID) }) {
		maphash.WriteComparable(&h, [3]string{g.UID, g.Namespace, g.Name})
		maphash.WriteComparable(&h, [2]int64{g.Generation, int64(len(g.Allowances))})
		for _, a := range g.Allowances {
			maphash.WriteComparable(&h, a)
		}
	}
	return h.Sum64()
}
