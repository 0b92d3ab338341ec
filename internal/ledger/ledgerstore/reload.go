package ledgerstore

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// Notice is the view of a stored ledger in a watch.
type Notice struct {
	// Name is the name of the ledger object.
	Name    string
	Version Version
	// Unfinished is the unfinished work in the ledger.
	Unfinished Unfinished
	// Observed is what the ledger has observed.
	Observed Observed
}

// Observe informs the store of a stored version of a ledger. If the version is later than the copy in memory, another
// process wrote it.
//
// The preferred replica reads such a ledger at once. Other replicas only inform subscribers, and read the ledger before
// its next use here. They also read it when they become the preferred replica and it has something unfinished. They
// read it, too, when its oldest reservation stays in flight for suspiciously long, because the preferred replica may
// stand still.
//
// Observe returns false if the store does not know the consumer of the ledger; see [Store.ObserveOf].
func (s *Store) Observe(n Notice) (known bool) {
	s.mu.RLock()
	consumer, known := s.consumers[n.Name]
	if c := s.byName[n.Name]; c != nil {
		consumer, known = c.consumer, true
	}
	s.mu.RUnlock()
	if known {
		s.observe(consumer, n)
	}
	return known
}

// ObserveOf is Observe for a ledger possibly unknown to the store.
func (s *Store) ObserveOf(consumer quotav1alpha1.ConsumerRef, n Notice) {
	s.mu.Lock()
	s.consumers[n.Name] = consumer
	s.mu.Unlock()
	s.observe(consumer, n)
}

func (s *Store) observe(consumer quotav1alpha1.ConsumerRef, n Notice) {
	s.observed.set(consumer, n.Observed)
	s.mu.RLock()
	hasCopy := s.byRef[consumer] != nil
	s.mu.RUnlock()
	if !hasCopy && n.Unfinished == NothingUnfinished {
		s.notify(consumer, Change{CapacityGrew: true})
		return
	}
	s.with(consumer, func(c *committer) bool { return c.observe(n) })
}

// ObserveDeletion informs the store of the deletion of the ledger object with the name.
func (s *Store) ObserveDeletion(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observed.set(s.consumers[name], "")
	delete(s.consumers, name)
}

// WasListed reports whether [Store.Preload] has handled this version of the ledger with the name. It answers once.
func (s *Store) WasListed(name string, version Version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed, ok := s.listed[name]
	delete(s.listed, name)
	return ok && listed == version
}

// noticed is the latest known version by another process.
type noticed struct {
	version    Version
	at         time.Time
	unfinished Unfinished
	// since is the time of the latest change of unfinished.
	since time.Time
}

// observe handles a stored version of the ledger. It returns false after the end of the committer.
func (c *committer) observe(n Notice) bool {
	if !c.isNewer(n.Version) {
		return true
	}
	if !c.notice(n) {
		return false
	}
	if c.isPreferred() {
		return c.reload(n.Version)
	}
	c.store.notify(c.consumer, Change{CapacityGrew: true})
	return true
}

// notice records a version of another process, and follows its unfinished work. It returns false after the end of the
// committer.
func (c *committer) notice(n Notice) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	now := time.Now()
	if n.Unfinished != c.noticed.unfinished || c.noticed.since.IsZero() {
		c.noticed.since = now
	}
	c.noticed.version, c.noticed.unfinished, c.noticed.at = n.Version, n.Unfinished, now
	c.isUnoffered = false // the later version has them, unless another replica has seen to them
	if n.Unfinished == NothingUnfinished || n.Unfinished == OnlyJournal {
		c.store.foreign.forget(c.consumer)
	}
	if !c.isFollowing {
		c.isFollowing = true
		time.AfterFunc(followInterval, c.follow)
	}
	return true
}

// follow reads the latest noticed version once this replica has to know it, and offers the journal the changes of the
// copy once this replica is the preferred one.
func (c *committer) follow() {
	if c.store.ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	n := c.noticed
	isRead := n.version == "" || !c.isNewer(n.version)
	isDue := !isRead && c.mustRead(n)
	mustOffer := c.isUnoffered && c.isPreferred()
	if isDue || mustOffer || !c.isUnoffered && (isRead || n.unfinished == NothingUnfinished) {
		c.isFollowing = false
	} else {
		time.AfterFunc(followInterval, c.follow)
	}
	c.mu.Unlock()
	switch {
	case isDue:
		c.store.with(c.consumer, func(c *committer) bool { return c.reload(n.version) })
	case mustOffer:
		c.store.OfferRecords(c.consumer)
	}
}

// mustRead reports whether this replica has to read the noticed, unread version.
func (c *committer) mustRead(n noticed) bool {
	known := c.store.ReservationsOf(c.consumer)
	switch {
	case n.unfinished == NothingUnfinished:
		return len(known) > 0 // they have ended
	case c.isPreferred():
		return true
	case n.unfinished == OnlyJournal:
		return len(known) > 0 // they have ended
	case n.unfinished == OnlySlices || time.Since(n.since) < stalledAfter:
		return false
	}
	for i := range known {
		if known[i].Sequence == n.unfinished.oldest() {
			return false
		}
	}
	return true
}

// isPreferred reports whether this process is the preferred replica of the consumer.
func (c *committer) isPreferred() bool {
	return c.store.Replicas == nil || c.store.Replicas.IsPreferred(c.consumer)
}

// latestNotice returns the latest notice. Its version is empty after a read.
func (c *committer) latestNotice() noticed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noticed
}

// isOutdated reports whether another process wrote a later version than the copy.
func (c *committer) isOutdated() bool {
	latest := c.latestNotice().version
	return latest != "" && c.isNewer(latest)
}

// endNotice marks a notice as read, after a later read found a version. It returns the latest possible time at which
// the reservations of this version began to exist.
func (c *committer) endNotice(n noticed, found Version) (since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noticed.version == n.version {
		c.noticed.version = "" // also if storage came from a backup, and never has this version
	}
	if n.version == found && found != "" {
		return n.at
	}
	return time.Now()
}

// reload reads the ledger again, unless the copy has the version or a later one, and notifies subscribers. It returns
// false after the end of the committer.
func (c *committer) reload(version Version) bool {
	loadID := c.loadID.Load()
	// The operation has no caller: like housekeeping it repeats until a read of the ledger succeeds.
	return c.commitNow(&operation{
		leavesDeferred: true,
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

// isNewer reports whether version is later than the latest one read or written by this process. Versions of ledgers are
// always comparable.
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
	c.store.foreign.replace(c.consumer, c.ledger, c.store.holder)
}
