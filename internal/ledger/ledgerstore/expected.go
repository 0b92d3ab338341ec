package ledgerstore

import (
	"maps"
	"time"
)

// outlook tells whether releases are expected, and how often operations were unparked so far.
func (c *committer) outlook() (releasing bool, unparked uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return c.isReleasingLocked(now), c.unparked
}

// isReleasingLocked reports whether releases are expected.
func (c *committer) isReleasingLocked(now time.Time) bool {
	maps.DeleteFunc(c.expected, func(_ string, since time.Time) bool { return now.Sub(since) > expectedMax })
	return len(c.expected) > 0
}

// expect notes that the charge identified by id will be given back soon. It reports false if the committer was dropped.
func (c *committer) expect(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	if c.expected == nil {
		c.expected = map[string]time.Time{}
	}
	c.expected[id] = time.Now()
	return true
}

// unexpect withdraws what expect noted.
func (c *committer) unexpect(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.expected[id]; !ok {
		return
	}
	delete(c.expected, id)
	if len(c.expected) == 0 {
		c.unparkLocked()
	}
}

// forgetTentative drops what an earlier attempt at the operations announced: none waits for itself.
func (c *committer) forgetTentative(batch []*operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range batch {
		if op.tentative != "" {
			delete(c.expected, op.tentative)
		}
	}
}
