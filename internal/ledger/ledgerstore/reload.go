package ledgerstore

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Observe informs the store of a version of the ledger object with that name. If the version is later than the copy in
// memory, another process wrote it: the store reads the ledger again and notifies subscribers. Observe returns false if
// the store does not know the consumer of that ledger yet; see [Store.ObserveOf].
func (s *Store) Observe(name string, version Version) (known bool) {
	s.mu.RLock()
	c := s.byName[name]
	s.mu.RUnlock()
	return c != nil && c.observe(version)
}

// ObserveOf is Observe for a consumer whose ledger the store may not know yet.
func (s *Store) ObserveOf(consumer quotav1alpha1.ConsumerRef, version Version) {
	s.with(consumer, func(c *committer) bool { return c.observe(version) })
}

// WasListed reports whether [Store.Preload] has handled that version of the ledger with that name. It answers once.
func (s *Store) WasListed(name string, version Version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed, ok := s.listed[name]
	delete(s.listed, name)
	return ok && listed == version
}

// observe reads the ledger again if version is later than the copy. It returns false if the committer was dropped.
func (c *committer) observe(version Version) bool {
	if !c.isNewer(version) {
		return true
	}
	if replicas := c.store.Replicas; replicas != nil && !replicas.IsPreferred(c.consumer) {
		return c.observeLater(version)
	}
	return c.reload(version)
}

// observeLater reads the ledger again after observeDelay, once for all versions until then.
func (c *committer) observeLater(version Version) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	isDue := c.observed != ""
	c.observed = version
	if isDue {
		return true
	}
	time.AfterFunc(observeDelay, func() {
		c.mu.Lock()
		latest := c.observed
		c.observed = ""
		c.mu.Unlock()
		if c.store.ctx.Err() == nil && c.isNewer(latest) {
			c.store.with(c.consumer, func(c *committer) bool { return c.reload(latest) })
		}
	})
	return true
}

// reload reads the ledger again, unless the copy has that version or a later one, and notifies subscribers. It returns
// false if the committer was dropped.
func (c *committer) reload(version Version) bool {
	loadID := c.loadID.Load()
	// The operation has no caller: like housekeeping it is tried again until the ledger could be read.
	return c.commitNow(&operation{
		apply: func(*ledger.Ledger, bool) groupcommit.Effect {
			// The answer to a write of this process may have arrived since: then the version is its own.
			if c.isNewer(version) {
				return groupcommit.Unconfirmed
			}
			return groupcommit.Nothing
		},
		committed: func() {
			if loadID == 0 { // subscribers hear of every later reload in any case
				c.store.notify(c.consumer, Change{CapacityGrew: true})
			}
		},
	})
}

// isNewer reports whether version is later than the latest one that this process has read or written. Versions of
// ledgers are always comparable.
func (c *committer) isNewer(version Version) bool {
	latest := c.latest.Load()
	if latest == nil {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(string(version), string(*latest))
	return err != nil || order > 0
}

// setVersion records the version of the copy in memory.
func (c *committer) setVersion(version Version) {
	c.version = version
	c.latest.Store(&version)
	c.bytes.Store(int64(c.ledger.Bytes()))
}
