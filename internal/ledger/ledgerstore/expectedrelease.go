package ledgerstore

import (
	"maps"
	"time"

	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// expectsReleases reports whether the committer expects releases.
func (c *committer) expectsReleases() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expectsReleasesLocked(time.Now())
}

// expectsReleasesLocked is expectsReleases with c.mu held.
func (c *committer) expectsReleasesLocked(now time.Time) bool {
	maps.DeleteFunc(c.expected, func(_ string, until time.Time) bool { return now.After(until) })
	return len(c.expected) > 0
}

// expectRelease announces the release of the charge with this id within some time, or within the longer time of an
// earlier announcement. It returns false after the end of the committer.
func (c *committer) expectRelease(id string, within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		return false
	}
	if c.expected == nil {
		c.expected = map[string]time.Time{}
	}
	if until := time.Now().Add(within); until.After(c.expected[id]) {
		c.expected[id] = until
	}
	return true
}

// releaseDone ends the expectation of expectRelease.
func (c *committer) releaseDone(id string) {
	c.mu.Lock()
	_, wasExpected := c.expected[id]
	delete(c.expected, id)
	isLast := wasExpected && len(c.expected) == 0
	c.mu.Unlock()
	if isLast {
		c.group.Resume()
	}
}

// forgetTentative drops the expectations of an earlier attempt at these operations: no operation waits for its own.
func (c *committer) forgetTentative(batch []*groupcommit.Operation[*ledger.Ledger]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range batch {
		if op, ok := op.Decision.(*operation); ok && op.tentative != "" {
			delete(c.expected, op.tentative)
		}
	}
}
