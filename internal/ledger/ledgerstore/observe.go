package ledgerstore

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Observe tells the store that the ledger object of that name was seen with that version. If
// it is later than what is in memory, another process has written it: the books are read again
// and subscribers are told. It returns false if the store does not know yet whose ledger that
// is; see [Store.ObserveOf].
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

// WasListed reports whether [Store.Preload] was given the ledger of that name with that version, and has read what there
// was to read. It answers once.
func (s *Store) WasListed(name string, version Version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed, ok := s.listed[name]
	delete(s.listed, name)
	return ok && listed == version
}

// observe reads the books again if version is later than theirs. It reports false if the committer was dropped.
func (c *committer) observe(version Version) bool {
	if !c.isNewer(version) {
		return true
	}
	if replicas := c.store.Replicas; replicas != nil && !replicas.IsPreferred(c.consumer) {
		return c.observeLater(version)
	}
	return c.reload(version)
}

// observeLater reads the books again in a while, for all versions that are seen until then.
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

// reload reads the books again unless they are of that version or a later one, and tells subscribers.
// It reports false if the committer was dropped.
func (c *committer) reload(version Version) bool {
	epoch := c.loadID.Load()
	// Nobody waits for it: like housekeeping it is tried again until the books could be read.
	return c.commitNow(&operation{
		apply: func(*ledger.Ledger, bool) groupcommit.Effect {
			// Meanwhile an answer may have come that tells that it was this process which wrote it.
			if c.isNewer(version) {
				return groupcommit.Unconfirmed
			}
			return groupcommit.Nothing
		},
		committed: func() {
			if epoch == 0 { // books that are read again are told of in any case
				c.store.notify(c.consumer, Change{CapacityGrew: true})
			}
		},
	})
}

// newer tells whether version is later than the latest one that this process has read or
// written. No ledger has one that cannot be compared.
func (c *committer) isNewer(version Version) bool {
	latest := c.latest.Load()
	if latest == nil {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(string(version), string(*latest))
	return err != nil || order > 0
}

// saw notes the version of the books in memory.
func (c *committer) setVersion(version Version) {
	c.version = version
	c.latest.Store(&version)
	c.bytes.Store(int64(c.ledger.Bytes()))
}
