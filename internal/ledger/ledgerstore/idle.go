package ledgerstore

import "time"

// scheduleDropLocked schedules dropIdle. The caller holds s.mu.
func (s *Store) scheduleDropLocked() {
	if s.isDropScheduled || len(s.byRef) == 0 || s.ctx.Err() != nil {
		return
	}
	s.isDropScheduled = true
	time.AfterFunc(dropInterval, s.dropIdle)
}

// dropIdle drops idle committers with their copies of the ledger: there may be many consumers, and requests may name
// consumers that do not exist. The next operation on a dropped ledger reads it again.
func (s *Store) dropIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for consumer, c := range s.byRef {
		if c.drop(now) {
			delete(s.byRef, consumer)
		}
	}
	for name, c := range s.byName {
		if s.byRef[c.consumer] != c {
			delete(s.byName, name)
		}
	}
	s.isDropScheduled = false
	s.scheduleDropLocked()
}

// drop closes the committer if it is idle, and reports whether it did.
func (c *committer) drop(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	isBusy := c.isFollowing || c.expectsReleasesLocked(now) || c.store.inflight.has(c.consumer) || c.store.foreign.has(c.consumer)
	unused := idleMax
	if latest := c.latest.Load(); latest != nil && *latest == "" {
		unused = unstoredIdleMax
	}
	c.dropped = !isBusy && c.group.CloseIdle(unused)
	return c.dropped
}
