package enforce

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// effectPoll is the time between two looks for the effect of requests in flight. All who wait for the same requests
// share a look, so its cost does not depend on their number.
const effectPoll = 20 * time.Millisecond

// waitUntil returns until when a request may wait for the effect of others, with a moment left to answer it.
func waitUntil(ctx context.Context) time.Time {
	until := time.Now().Add(appearsWithin)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-effectPoll).Before(until) {
		return deadline.Add(-effectPoll)
	}
	return until
}

// isSoon reports whether a time is less than a moment away.
func isSoon(until time.Time) bool { return time.Now().Add(effectPoll).After(until) }

// pause waits a moment. It reports false if that would be too long.
func pause(ctx context.Context, until time.Time) bool {
	if isSoon(until) {
		return false
	}
	timer := time.NewTimer(effectPoll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitForOwn waits until a requester has fewer requests, because one has an effect or ends. It reports false if none of
// them is young, or if nothing happens in time.
func (h *Handler) waitForOwn(ctx context.Context, who share, fewerThan int, until time.Time) bool {
	for {
		if requests := h.unconfirmed.due(who); requests != nil {
			h.dropEnded(who, requests)
		}
		open, hasYoung := h.unconfirmed.open(who)
		if open < fewerThan {
			return true
		}
		if !hasYoung || !pause(ctx, until) {
			return false
		}
	}
}

// dropEnded looks at all requests of a requester, and forgets those that have ended.
func (h *Handler) dropEnded(who share, requests []*heldRequest) {
	hasYoung := false
	for _, r := range requests {
		if h.hasEnded(r) {
			h.unconfirmed.drop(r)
			continue
		}
		hasYoung = hasYoung || r.isYoung()
	}
	h.unconfirmed.looked(who, hasYoung)
}

// due returns the requests by which a requester holds quota, for the caller to look at them. It returns nil if somebody
// has done so a moment ago.
func (u *unconfirmed) due(who share) []*heldRequest {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.byShare[who]
	if h == nil || h.hasYoung && time.Since(h.lookedAt) < effectPoll {
		return nil
	}
	h.lookedAt = time.Now()
	return slices.Collect(maps.Values(h.requests))
}

// looked records whether one of the requests of a requester is young.
func (u *unconfirmed) looked(who share, hasYoung bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if h := u.byShare[who]; h != nil {
		h.hasYoung = hasYoung
	}
}

// open returns the number of requests of a requester, and whether one was young at the last look.
func (u *unconfirmed) open(who share) (count int, hasYoung bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if h := u.byShare[who]; h != nil {
		return len(h.requests), h.hasYoung
	}
	return 0, false
}

// heldVersions are versions of what requests without a visible effect hold, in the order of consumers.
type heldVersions struct {
	versions []int64
	hasYoung bool // whether one of the requests is young
}

// waitForOthers waits until a request by others that holds quota of these consumers has an effect or ends. seen is the
// last look before, and becomes the last look here. It reports false if none of the requests is young, or if nothing
// happens in time.
func (h *Handler) waitForOthers(ctx context.Context, consumers []quotav1alpha1.ConsumerRef, seen *heldVersions, until time.Time) bool {
	for seen.hasYoung && pause(ctx, until) {
		before := seen.versions
		*seen = h.lookAt(consumers)
		if !slices.Equal(before, seen.versions) {
			return true
		}
	}
	return false
}

// lookAt looks at what requests without a visible effect hold of these consumers.
func (h *Handler) lookAt(consumers []quotav1alpha1.ConsumerRef) heldVersions {
	var seen heldVersions
	for _, consumer := range consumers {
		version, isYoung := h.looks.of(consumer, h)
		seen.versions, seen.hasYoung = append(seen.versions, version), seen.hasYoung || isYoung
	}
	return seen
}

// looks are the last looks at what requests without a visible effect hold, by consumer. The zero value is empty.
type looks struct {
	// looking has the looks under way, so that nobody looks beside another.
	looking singleflight.Group

	mu         sync.Mutex
	byConsumer map[quotav1alpha1.ConsumerRef]*look
	// version is that of the last change that a look has found.
	version int64
}

// look is a look at one consumer. It is immutable.
type look struct {
	at        time.Time
	version   int64
	sequences map[string]int64 // by key
	hasYoung  bool
}

// of returns the version of what is held of a consumer, and whether a part of it is young. It looks itself if nobody
// has done so a moment ago, and if there may be something young by now.
func (l *looks) of(consumer quotav1alpha1.ConsumerRef, h *Handler) (version int64, hasYoung bool) {
	if known := l.recent(consumer); known != nil {
		return known.version, true
	}

	found, _, _ := l.looking.Do(naming.Ledger(consumer), func() (any, error) {
		at := time.Now()
		held, isYoung := h.unconfirmedReservations(consumer)
		now := &look{at: at, sequences: make(map[string]int64, len(held)), hasYoung: isYoung}
		for _, pending := range held {
			now.sequences[pending.Key] = pending.Sequence
		}
		return l.add(consumer, now), nil
	})
	latest := found.(*look)
	return latest.version, latest.hasYoung
}

// recent returns the last look at a consumer if it saw something young a moment ago, or nil.
func (l *looks) recent(consumer quotav1alpha1.ConsumerRef) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byConsumer[consumer]; known != nil && known.hasYoung && time.Since(known.at) < effectPoll {
		return known
	}
	return nil
}

// add adds a look with its version, and forgets old ones.
func (l *looks) add(consumer quotav1alpha1.ConsumerRef, now *look) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byConsumer[consumer]; known != nil && maps.Equal(known.sequences, now.sequences) {
		now.version = known.version
	} else {
		l.version++
		now.version = l.version
	}

	if l.byConsumer == nil {
		l.byConsumer = map[quotav1alpha1.ConsumerRef]*look{}
	}
	maps.DeleteFunc(l.byConsumer, func(_ quotav1alpha1.ConsumerRef, old *look) bool { return time.Since(old.at) > appearsWithin })
	l.byConsumer[consumer] = now
	return now
}
