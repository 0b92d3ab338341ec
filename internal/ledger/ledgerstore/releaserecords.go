package ledgerstore

import (
	"sync"
	"sync/atomic"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// released holds, for each record of a released claim, the time when this process first saw it. Old records are those
// without a call of [Store.Forget] by a controller.
type released struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]time.Time
	// underWay has the current releases of this process by claim UID. The value is true after Forget: then somebody
	// released the claim before, and the record may be gone.
	underWay map[string]*atomic.Bool
}

func newReleased() *released {
	return &released{byConsumer: map[quotav1alpha1.ConsumerRef]map[string]time.Time{}, underWay: map[string]*atomic.Bool{}}
}

// begin adds a current release until the call of end. isForgotten is true after Forget for the claim.
func (r *released) begin(claimUID string) (isForgotten *atomic.Bool, end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	isForgotten = &atomic.Bool{}
	r.underWay[claimUID] = isForgotten
	return isForgotten, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.underWay, claimUID)
	}
}

// forget makes a current release give nothing back.
func (r *released) forget(claimUID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if isForgotten := r.underWay[claimUID]; isForgotten != nil {
		isForgotten.Store(true)
	}
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

// has reports whether this process knows records of a consumer.
func (r *released) has(consumer quotav1alpha1.ConsumerRef) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byConsumer[consumer]) > 0
}

// replace makes the records of the ledger the known ones of a consumer.
func (r *released) replace(consumer quotav1alpha1.ConsumerRef, l *ledger.Ledger) {
	r.mu.Lock()
	before := r.byConsumer[consumer]
	delete(r.byConsumer, consumer)
	r.mu.Unlock()
	for claimUID := range l.Released() {
		r.add(consumer, claimUID)
		if since, known := before[claimUID]; known {
			r.mu.Lock()
			r.byConsumer[consumer][claimUID] = since
			r.mu.Unlock()
		}
	}
}

// ReleasedLongAgo returns, by consumer, the UIDs of released claims with records older than age. Normally a record ends
// with its claim. The responsible controller missed the end of a remaining one.
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
