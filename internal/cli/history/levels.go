package history

import (
	"context"
	"maps"
	"slices"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
)

// level is the use of an account, and its limit.
type level struct{ used, limit int64 }

// step is a change of the level of an account: it is before until a time, and after from then on. An entry without a
// change makes a step, too.
type step struct {
	account
	time          time.Time
	before, after level
	// entry is the entry in the journal. An Opened entry makes a step for each resource type.
	entry *journal.Entry
	// isFirst marks the first entry of the account.
	isFirst bool
}

// state has the known facts about a consumer.
type state struct {
	isSelected bool
	// clock is the time of the latest entry. Later entries with an earlier time count at this time.
	clock  time.Time
	levels map[string]level
	// sequence and latest are those of the latest entry.
	sequence int64
	latest   journal.Kind
}

// eachStep calls f with the steps of the selected accounts, from the beginning of the journal to the end of the window.
// With inWindow it begins with the window: the first entry of an account has the level before it, and accounts without
// an entry in the window have no step. For a name without an entry in the window, it reads everything to find out why,
// unless the selection is lenient.
func eachStep(ctx context.Context, source journal.Source, selection *Selection, inWindow bool, f func(*step)) (*names, error) {
	if inWindow && !selection.Since.IsZero() {
		n, err := eachStepSince(ctx, source, selection, selection.Since, f)
		if err != nil {
			return nil, err
		}
		if selection.IsLenient || n.check() == nil {
			n.inWindow = true
			return n, nil
		}
	}
	n, err := eachStepSince(ctx, source, selection, time.Time{}, f)
	if err != nil {
		return nil, err
	}
	return n, n.check()
}

func eachStepSince(ctx context.Context, source journal.Source, selection *Selection, since time.Time, f func(*step)) (*names, error) {
	n, err := newNames(selection)
	if err != nil {
		return nil, err
	}
	states := map[quotav1alpha1.ConsumerRef]*state{}
	query, err := n.query(ctx, source)
	if err != nil {
		return nil, err
	}
	query.Since = since
	err = eachEntry(ctx, source, query, func(e *journal.Entry) {
		s := states[e.Consumer]
		if s == nil {
			s = &state{isSelected: n.hasConsumer(e.Consumer), levels: map[string]level{}}
			states[e.Consumer] = s
		}
		if !s.isSelected {
			return
		}
		if gap := s.gapBefore(e); gap != nil {
			n.gaps = append(n.gaps, *gap)
		}
		s.sequence, s.latest = e.Sequence, e.Kind
		if e.Time.After(s.clock) {
			s.clock = e.Time
		}
		if e.Kind == journal.Opened {
			for _, resourceType := range s.opened(e.Opening) {
				if n.hasType(resourceType) {
					f(s.open(e, resourceType))
				}
			}
		} else if n.hasType(e.ResourceType) {
			f(s.change(e))
		}
	})
	return n, err
}

// change follows an entry with a change of an account.
func (s *state) change(e *journal.Entry) *step {
	after := level{used: e.Used, limit: e.Limit}
	before, isKnown := s.levels[e.ResourceType]
	if !isKnown {
		before = after
		if e.Kind == journal.LimitChanged {
			before.limit = less(e.Limit, e.Change)
		} else {
			before.used = less(e.Used, e.Change)
		}
	}
	s.levels[e.ResourceType] = after
	return &step{account: account{e.Consumer, e.ResourceType}, time: s.clock, before: before, after: after, entry: e, isFirst: !isKnown}
}

// opened returns the resource types with a level after an Opened entry, sorted: those in it, and those from before it.
func (s *state) opened(opening *journal.Opening) []string {
	types := map[string]bool{}
	for resourceType := range s.levels {
		types[resourceType] = true
	}
	if opening != nil {
		for i := range opening.Limits {
			types[opening.Limits[i].ResourceType] = true
		}
		for i := range opening.Balances {
			types[opening.Balances[i].ResourceType] = true
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// open follows an Opened entry for a resource type. There is no record from before the first entry.
func (s *state) open(e *journal.Entry, resourceType string) *step {
	before, isKnown := s.levels[resourceType]
	after := openedLevel(e.Opening, resourceType)
	s.levels[resourceType] = after
	return &step{account: account{e.Consumer, resourceType}, time: s.clock, before: before, after: after, entry: e, isFirst: !isKnown}
}

// openedLevel returns the level of a resource type in an Opened entry.
func openedLevel(opening *journal.Opening, resourceType string) level {
	var l level
	if opening == nil {
		return l
	}
	for i := range opening.Balances {
		if b := &opening.Balances[i]; b.ResourceType == resourceType {
			l.used = sum(l.used, b.Amount)
		}
	}
	for i := range opening.Limits {
		if g := &opening.Limits[i]; g.ResourceType == resourceType {
			l.limit = sum(l.limit, g.Amount)
		}
	}
	return l
}
