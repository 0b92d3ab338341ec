package ledgerstore

import (
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/groupcommit"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// committer has the copy of one consumer's ledger in memory. All operations of this process on the ledger go through
// its group.
type committer struct {
	store    *Store
	consumer quotav1alpha1.ConsumerRef
	// turn is the moment for recording admissions in each recordDelayMax, see recordDelay.
	turn  time.Duration
	group *groupcommit.Group[*ledger.Ledger]

	// loadID changes with each load that may have brought in changes of another process. It is 0 before the first load.
	// A load of the version from before a rejected write keeps it.
	loadID atomic.Uint64
	// latest is the version of the copy, or of the previous copy if there is none.
	latest atomic.Pointer[Version]
	// first, if set, is the copy for the first load.
	first atomic.Pointer[listedCopy]
	// bytes is an upper bound on the stored size of the copy.
	bytes atomic.Int64
	// written is the time of the latest write by this process.
	written atomic.Pointer[time.Time]
	escrow  escrow
	shipped journalTrim
	waiting waiting
	stock   stock

	mu          sync.Mutex
	dropped     bool // see Store.dropIdle
	noticed     noticed
	isFollowing bool                 // a timer for follow runs
	isUnoffered bool                 // the journal did not take all changes in the copy, or in the one before it
	expected    map[string]time.Time // expected releases with the end of the expectation, see Store.ExpectRelease

	// The rest belongs to the goroutine of the group.
	ledger      *ledger.Ledger // nil when unknown
	version     Version
	isFresh     bool // a read or write of the ledger happened since attempt 0 of the batch
	isReleasing bool // releases are expected
	unknown     int  // writes of the batch in a row with an unknown outcome
	isLost      bool // a write had an unknown outcome, and no read followed yet
	// mayLand is set while a write with an unknown outcome may still take effect, if the stored version is unanswered.
	mayLand    bool
	unanswered Version
	isRejected bool  // the latest write was rejected, and no read followed yet
	offered    int64 // the sequence of the latest change in the journal
	// Subscribers do not know these yet: this process changed the ledger, denied claims may fit after its change, and
	// the committer read changes of another process.
	hasChanged, hasGrown, wasReread bool
}

func newCommitter(s *Store, consumer quotav1alpha1.ConsumerRef) *committer {
	c := &committer{store: s, consumer: consumer, turn: time.Duration(crc32.ChecksumIEEE([]byte(naming.Ledger(consumer)))) % recordDelayMax}
	c.group = groupcommit.New(s.ctx, "the ledger of "+describe(consumer), c)
	return c
}

// Load implements [groupcommit.Copy].
func (c *committer) Load(batch []*groupcommit.Operation[*ledger.Ledger], attempt int) (*ledger.Ledger, error) {
	if attempt == 0 {
		c.isFresh, c.unknown = false, 0
		if c.isOutdated() {
			c.ledger = nil
		}
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.beginRecords()
	c.takeStock()
	c.escrow.begin()
	c.forgetTentative(batch)
	c.isReleasing = c.expectsReleases()
	return c.ledger, nil
}

// Commit implements [groupcommit.Copy].
func (c *committer) Commit(_ *ledger.Ledger, effects []groupcommit.Effect) error {
	switch {
	case slices.Contains(effects, groupcommit.Changed):
		if err := c.write(); err != nil {
			return err
		}
		c.store.metrics.observeBatch(effects)
	case slices.Contains(effects, groupcommit.Unconfirmed) && !c.isFresh:
		return c.confirm()
	}
	return nil
}

// Finished implements [groupcommit.Copy].
func (c *committer) Finished() {
	if c.hasChanged || c.wasReread {
		c.store.notify(c.consumer, Change{CapacityGrew: c.hasGrown || c.wasReread})
	}
	c.hasChanged, c.hasGrown, c.wasReread = false, false, false
	c.scheduleTrim()
	c.storeStockLater()
}

// lastWrite returns the time of the latest write by this process, or the zero time.
func (c *committer) lastWrite() time.Time {
	if written := c.written.Load(); written != nil {
		return *written
	}
	return time.Time{}
}

func describe(consumer quotav1alpha1.ConsumerRef) string {
	return consumer.Kind + " " + consumer.Name
}
