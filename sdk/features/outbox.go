package features

import (
	"slices"
	"sync"

	"github.com/open-feature/go-sdk/openfeature"
)

// outbox has the events that no reader has taken yet. Changes join, so there is one event of changes at most, and one
// of the state.
type outbox struct {
	// news has an element if there may be an event.
	news chan struct{}

	mu sync.Mutex
	// changed are the resource types with another limit.
	changed []string
	// state is the type of the event about the state by the watch, or "" before the first list. reported is the last one
	// that OpenFeature knows.
	state, reported openfeature.EventType
	// reason is the reason of a stale state.
	reason error
	// starts is the number of calls of Init under way. OpenFeature emits an event about the end of each.
	starts int
}

// note applies a change, and wakes the publisher.
func (o *outbox) note(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// change notes another limit of a resource type.
func (o *outbox) change(resourceType string) {
	o.note(func() {
		if !slices.Contains(o.changed, resourceType) {
			o.changed = append(o.changed, resourceType)
		}
	})
}

// begin notes a call of Init, and end its end.
func (o *outbox) begin() { o.note(func() { o.starts++ }) }

func (o *outbox) end(err error) {
	o.note(func() {
		o.starts--
		o.reported = openfeature.ProviderReady
		if err != nil {
			o.reported = openfeature.ProviderError
		}
	})
}

// ready notes the first list.
func (o *outbox) ready() { o.note(func() { o.state = openfeature.ProviderReady }) }

// lost notes the loss of the watch. Before the first list there is nothing to lose.
func (o *outbox) lost(err error) {
	o.note(func() {
		if o.state == openfeature.ProviderReady {
			o.state, o.reason = openfeature.ProviderStale, err
		}
	})
}

// regained notes a new watch.
func (o *outbox) regained() {
	o.note(func() {
		if o.state == openfeature.ProviderStale {
			o.state = openfeature.ProviderReady
		}
	})
}

// next takes the next event, or returns false. A state comes before changes.
func (o *outbox) next() (event openfeature.Event, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	event.ProviderName = Name
	switch {
	case o.starts == 0 && o.state != "" && o.state != o.reported:
		o.reported, event.EventType = o.state, o.state
		if event.Message = "quota is up to date"; o.state == openfeature.ProviderStale {
			event.Message = "quota may be out of date: " + o.reason.Error()
		}
		return event, true
	case len(o.changed) > 0:
		event.EventType, event.Message, event.FlagChanges = openfeature.ProviderConfigChange, "quota has changed", o.changed
		o.changed = nil
		return event, true
	}
	return event, false
}
