package ledgerstore

import (
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// overlookedAfter is how long a ledger may differ from the inventory without a write before another replica than the
// preferred one sees to it. The preferred one takes a moment, or has died. After outdatedAfter, none has succeeded.
const overlookedAfter, outdatedAfter = 6 * time.Second, 30 * time.Second

// Observed is the value of [quotav1alpha1.AnnotationObserved]: what a ledger has observed of each kind, in short.
type Observed string

// ObservedIn returns what a ledger has observed.
func ObservedIn(observations iter.Seq[ledger.Observation]) Observed {
	var parts []string
	for o := range observations {
		if len(o.Demands) > 0 {
			parts = append(parts, o.Kind+"="+digestOf(o.Demands))
		}
	}
	slices.Sort(parts)
	return Observed(strings.Join(parts, " "))
}

// digestOf identifies demands, in any order.
func digestOf(demands []ledger.Demand) string {
	lines := make([]string, 0, len(demands))
	for i := range demands {
		d := &demands[i]
		lines = append(lines, fmt.Sprintf("%q %q %d %d", d.ResourceType, d.Dimensions.Map(), d.Amount, d.Objects))
	}
	slices.Sort(lines)
	hash := fnv.New64a()
	for _, line := range lines {
		_, _ = hash.Write([]byte(line)) // a hash never fails
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}

// of returns the digest of a kind, or "" for no demand.
func (o Observed) of(kind string) string {
	for part := range strings.FieldsSeq(string(o)) {
		if digest, is := strings.CutPrefix(part, kind+"="); is {
			return digest
		}
	}
	return ""
}

// kinds returns the kinds with demand.
func (o Observed) kinds() []string {
	var kinds []string
	for part := range strings.FieldsSeq(string(o)) {
		kind, _, _ := strings.Cut(part, "=")
		kinds = append(kinds, kind)
	}
	return kinds
}

// observedLedgers are the latest known observations of all ledgers, and since when they differ from the inventory. The
// zero value is empty.
type observedLedgers struct {
	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef]Observed
	differs    map[quotav1alpha1.ConsumerRef]difference
}

// difference is that of a ledger from the inventory. A ledger that is written again and again is none: it follows.
type difference struct {
	stored Observed
	since  time.Time
}

func (o *observedLedgers) set(consumer quotav1alpha1.ConsumerRef, observed Observed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byConsumer == nil {
		o.byConsumer = map[quotav1alpha1.ConsumerRef]Observed{}
	}
	if o.byConsumer[consumer] = observed; observed == "" {
		delete(o.byConsumer, consumer)
	}
}

// of returns the latest known observations of a ledger.
func (o *observedLedgers) of(consumer quotav1alpha1.ConsumerRef) Observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byConsumer[consumer]
}

// all returns a copy of the latest known observations.
func (o *observedLedgers) all() map[quotav1alpha1.ConsumerRef]Observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.byConsumer)
}

// SweepStock has every ledger observe the inventory whose observation differs from it: those of consumers that prefer
// this replica at once, and others after a while. So nothing stays overlooked, whichever replica missed a change or
// died. Call it regularly.
func (s *Store) SweepStock() {
	if s.Inventory == nil {
		return
	}
	stored := s.observed.all()
	consumers := map[quotav1alpha1.ConsumerRef]struct{}{}
	for consumer := range stored {
		consumers[consumer] = struct{}{}
	}
	for _, consumer := range s.Inventory.Consumers() {
		consumers[consumer] = struct{}{}
	}

	kinds := s.Inventory.Kinds()
	differs := map[quotav1alpha1.ConsumerRef]difference{}
	for consumer := range consumers {
		if !s.isOverlooked(consumer, stored[consumer], kinds) {
			continue
		}
		d, isKnown := s.observed.differs[consumer]
		if !isKnown || d.stored != stored[consumer] {
			d = difference{stored[consumer], time.Now()}
		}
		differs[consumer] = d
		if s.Replicas == nil || s.Replicas.IsPreferred(consumer) || time.Since(d.since) >= overlookedAfter {
			s.unobserved().Add(consumer)
		}
	}
	s.observed.differs = differs // only sweeps use it, one at a time
	s.metrics.outdated.Set(float64(s.observed.outdated()))
}

// outdated returns the number of ledgers that somebody should have seen to by now.
func (o *observedLedgers) outdated() (count int) {
	for _, d := range o.differs {
		if time.Since(d.since) >= outdatedAfter {
			count++
		}
	}
	return count
}

// isOverlooked reports whether the observation of a ledger differs from the inventory.
func (s *Store) isOverlooked(consumer quotav1alpha1.ConsumerRef, stored Observed, kinds []string) bool {
	differs := func(kind string) bool { return s.differs(kind, consumer, stored) }
	return slices.ContainsFunc(kinds, differs) || slices.ContainsFunc(stored.kinds(), func(kind string) bool {
		return !slices.Contains(kinds, kind) && s.Inventory.IsRetired(kind, ledger.Basis{})
	})
}

// differs reports whether a ledger has observed another demand of a kind than the inventory shows.
func (s *Store) differs(kind string, consumer quotav1alpha1.ConsumerRef, stored Observed) (differs bool) {
	s.Inventory.View(kind, consumer, func(o ledger.Observation, _ ledger.Observer) {
		var now string
		if len(o.Demands) > 0 {
			now = digestOf(o.Demands)
		}
		differs = now != stored.of(kind)
	})
	return differs
}

// isUpToDate reports whether a ledger that is not in memory has observed the demand of a listed kind. So a start reads
// no ledger for which nothing has changed.
func (s *Store) isUpToDate(kind string, consumer quotav1alpha1.ConsumerRef) bool {
	s.mu.RLock()
	isInMemory := s.byRef[consumer] != nil
	s.mu.RUnlock()
	return !isInMemory && s.Inventory.IsListed(kind) && !s.differs(kind, consumer, s.observed.of(consumer))
}
