package ledgerstore

import (
	"sync/atomic"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
)

// journalTrimDelay is how long records stay in the ledger after the journal has them, without another write.
const journalTrimDelay = 30 * time.Second

// Journal takes the records of ledgers, in order to store them for good. It may get the same changes again: from
// another process, or after this process read the ledger again.
type Journal interface {
	// Take takes stored changes of the ledger of a consumer. opening, if not nil, is the state before them. Take
	// returns false, and takes nothing, if it has no room; it then calls [Store.OfferRecords] once it has. Take must
	// return quickly, and not change its arguments.
	Take(consumer quotav1alpha1.ConsumerRef, opening *ledger.Opening, entries []ledger.Entry) bool
}

// Deletions knows who deleted grants.
type Deletions interface {
	// DeletedBy returns the user who deleted the grant with a UID, or "".
	DeletedBy(grantUID string) string
}

// RecordsStored informs the store of a write of the journal: it has the changes of a consumer up to a sequence. The
// ledger drops them with the next commit, or soon. The sequences of a consumer must not decrease.
func (s *Store) RecordsStored(consumer quotav1alpha1.ConsumerRef, through int64) {
	s.with(consumer, func(c *committer) bool { return c.trimJournal(through) })
}

// OfferRecords makes the store offer the journal the remaining changes of a consumer.
func (s *Store) OfferRecords(consumer quotav1alpha1.ConsumerRef) {
	s.with(consumer, func(c *committer) bool {
		return c.commitNow(&operation{leavesDeferred: true, apply: nothing, committed: c.offerJournal})
	})
}

// HasRecords reports whether a stored ledger has changes missing in the journal.
func HasRecords(journal *quotav1alpha1.LedgerJournal) bool {
	return journal != nil && (len(journal.Records) > 0 || journal.OpenedAt != 0)
}

// beginRecords prepares the copy for the records of a batch. The sequence of a new journal is the time in microseconds,
// and so higher than all in an earlier ledger of the consumer.
func (c *committer) beginRecords() {
	now := c.store.Clock.Now()
	c.ledger.BeginBatch(now.UnixMilli())
	if c.store.Journal == nil {
		c.ledger.StopJournal()
	} else {
		c.ledger.StartJournal(now.UnixMicro())
	}
}

// offerJournal offers the journal the remaining changes in the copy. All of them must be in storage. Only the preferred
// replica does so: another one waits until it is preferred, or hears of a later version.
func (c *committer) offerJournal() {
	if c.store.Journal == nil || c.ledger == nil || c.stock.isAhead {
		return // the next write offers them
	}
	if c.ledger.IsJournalBefore(c.offered) {
		// Storage is back at an earlier state, from a backup, and would give sequences again.
		c.ledger.StopJournal()
		c.offered = 0
		return
	}
	opening, entries, last := c.ledger.JournalAfter(c.offered)
	isNew := opening != nil || len(entries) > 0
	if isNew && c.isPreferred() && c.store.Journal.Take(c.consumer, opening, entries) {
		c.offered, isNew = last, false
	}
	c.keepUnoffered(isNew)
}

// keepUnoffered sets whether the copy has changes missing in the journal.
func (c *committer) keepUnoffered(isUnoffered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isUnoffered = isUnoffered
	if isUnoffered && !c.isFollowing && !c.isPreferred() {
		c.isFollowing = true
		time.AfterFunc(followInterval, c.follow)
	}
}

// journalTrim is how far the journal has stored the records of one ledger.
type journalTrim struct {
	through     atomic.Int64
	isScheduled atomic.Bool
}

// trimJournal drops records once they are in the journal, with the next commit or after a delay. It returns false after
// the end of the committer.
func (c *committer) trimJournal(through int64) bool {
	c.shipped.through.Store(through)
	if c.shipped.isScheduled.Swap(true) {
		return true
	}
	var trimmed int64
	isCommitting := c.commitLater(&operation{
		maxDelay: journalTrimDelay,
		apply: func(l *ledger.Ledger, _ bool) groupcommit.Effect {
			if trimmed = c.shipped.through.Load(); l.TrimJournal(trimmed) {
				return groupcommit.Changed
			}
			return groupcommit.Nothing
		},
		committed: func() {
			c.shipped.isScheduled.Store(false)
			if latest := c.shipped.through.Load(); latest > trimmed {
				c.trimJournal(latest)
			}
		},
	})
	if !isCommitting {
		c.shipped.isScheduled.Store(false)
	}
	return isCommitting
}
