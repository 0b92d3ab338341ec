package simulation

import "time"

// mode is how objects are charged.
type mode string

const (
	// ofRecord charges objects by claims of record.
	ofRecord mode = "of record"
	// counted makes the objects themselves count, and viewed shows each of them in a claim besides.
	counted mode = "counted"
	viewed  mode = "viewed"
)

// shape describes the world of a seed. Small worlds of many kinds find more than large ones of one kind.
type shape struct {
	mode                                mode
	replicas, servers, consumers, users int
	// limit is the limit of each consumer, standing the constant amount of a claim, and amountMax the highest cost of
	// an object.
	limit, standing, amountMax int64
	// isDurable turns escrow off, and hasDirect makes users create claims.
	isDurable, hasDirect, changesLimits bool
	// hasUpdates makes users change the cost of objects, hasUnreviewed some of that without a review. followsUpdates makes
	// the policy follow updates: otherwise nobody reviews any.
	hasUpdates, hasUnreviewed, followsUpdates bool
	// movesNamespaces makes namespaces change hands: a label names who pays for its objects.
	movesNamespaces bool
	// changesPolicy makes the policy charge each object once or twice its cost.
	changesPolicy bool
	// standsStill makes the journal take nothing while anything fails.
	standsStill bool
	// faults is the number of requests with one failure among them, or 0 for none. latency bounds each way of a
	// request, lag the time until an API server sees a revision.
	faults       int
	latency, lag time.Duration
	// pause bounds the time between two requests of a user, and trouble the time between two troubles.
	pause, trouble time.Duration
	// active is the working time of users, and quiet bounds their pauses in between.
	active, quiet time.Duration
	// stall bounds the time for which a host stands still.
	stall time.Duration
}

// shapeOf returns the shape of a seed.
func shapeOf(roll func(n int) int) shape {
	pick := func(choices ...int) int { return choices[roll(len(choices))] }
	s := shape{
		replicas: pick(1, 2, 2, 3), servers: pick(1, 1, 2), consumers: pick(1, 1, 2), users: pick(2, 3, 5),
		limit: int64(pick(300, 400, 600)), amountMax: int64(pick(1, 1, 2, 3)),
		isDurable: roll(6) == 0, hasDirect: roll(4) == 0, changesLimits: roll(5) == 0,
		faults:  pick(0, 10, 20, 40),
		latency: time.Duration(pick(2, 10, 50, 400)) * time.Millisecond, lag: time.Duration(pick(2, 20, 500, 3000)) * time.Millisecond,
		pause: time.Duration(pick(150, 500, 1500)) * time.Millisecond, trouble: time.Duration(pick(2, 5, 12)) * time.Second,
		active: time.Duration(pick(8, 20, 60, 100)) * time.Second,
	}
	s.quiet, s.stall = s.active/3, time.Duration(pick(5, 30, 100, 100))*time.Second
	s.standing = s.limit - int64(pick(6, 12, 30, 150))
	s.standsStill = roll(8) == 0
	s.mode = []mode{ofRecord, counted, viewed}[roll(3)]
	if s.countsObjects() {
		s.hasUpdates = roll(3) > 0
		s.hasUnreviewed = s.hasUpdates && roll(2) == 0
		s.movesNamespaces = s.consumers > 1 && roll(2) == 0
		s.changesPolicy = roll(4) == 0
		s.followsUpdates = s.hasUpdates && (!s.hasUnreviewed || roll(4) > 0)
	}
	return s
}

// countsObjects reports whether objects count by themselves.
func (s *shape) countsObjects() bool { return s.mode != ofRecord }

// isSteady reports whether objects demand nothing that nobody has reviewed.
func (s *shape) isSteady() bool { return !s.hasUnreviewed && !s.movesNamespaces && !s.changesPolicy }
