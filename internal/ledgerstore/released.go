package ledgerstore

import (
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// released remembers since when each record of a released claim is known, so that records
// which nobody forgot can be found.
type released struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]time.Time
}

func newReleased() *released {
	return &released{byConsumer: map[quotav1alpha1.ConsumerRef]map[string]time.Time{}}
}

func (r *released) add(consumer quotav1alpha1.ConsumerRef, claimUID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	records := r.byConsumer[consumer]
	if records == nil {
		records = map[string]time.Time{}
		r.byConsumer[consumer] = records
	}
	if records[claimUID].IsZero() {
		records[claimUID] = time.Now()
	}
}

func (r *released) remove(consumer quotav1alpha1.ConsumerRef, claimUID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byConsumer[consumer], claimUID)
	if len(r.byConsumer[consumer]) == 0 {
		delete(r.byConsumer, consumer)
	}
}

// replace makes the known records of a consumer those in its books.
func (r *released) replace(consumer quotav1alpha1.ConsumerRef, books *ledger.Ledger) {
	r.mu.Lock()
	before := r.byConsumer[consumer]
	delete(r.byConsumer, consumer)
	r.mu.Unlock()
	for claimUID := range books.Released() {
		r.add(consumer, claimUID)
		if since, known := before[claimUID]; known {
			r.mu.Lock()
			r.byConsumer[consumer][claimUID] = since
			r.mu.Unlock()
		}
	}
}

// ReleasedLongAgo returns, by consumer, the UIDs of released claims whose record is older than
// age. Normally a record goes with its claim; one that stays has lost whoever should forget it.
func (s *Store) ReleasedLongAgo(age time.Duration) map[quotav1alpha1.ConsumerRef][]string {
	s.released.mu.Lock()
	defer s.released.mu.Unlock()
	old := map[quotav1alpha1.ConsumerRef][]string{}
	for consumer, records := range s.released.byConsumer {
		for claimUID, since := range records {
			if time.Since(since) > age {
				old[consumer] = append(old[consumer], claimUID)
			}
		}
	}
	return old
}
