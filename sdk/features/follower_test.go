package features

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-feature/go-sdk/openfeature"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// knows gives a follower the quota of acme, as after a start.
func (f *follower) knows() *follower {
	known := knownIndex()
	f.known.byConsumer, f.known.byEnd = known.byConsumer, known.byEnd
	f.events.state, f.events.reported = openfeature.ProviderReady, openfeature.ProviderReady
	return f
}

// Each change of a flag's value is an event. Changes without a reader join.
func TestEventsOfChanges(t *testing.T) {
	const dark = "features.example.com/dark"
	on := quotav1alpha1.EffectiveResourceGrantStatus{TotalLimit: 1, TotalAllocated: 6, Feature: quotav1alpha1.FeatureOn}
	kibibytes := quotav1alpha1.EffectiveResourceGrantStatus{TotalLimit: 2048, Display: &quotav1alpha1.DisplayedQuota{TotalLimit: "2048 bytes"}}
	elsewhere := shown(dark, on)
	elsewhere.Namespace = "elsewhere"
	unfinished := shown("example.com/unfinished", quotav1alpha1.EffectiveResourceGrantStatus{})
	unfinished.Status.ObservedGeneration = 0
	for name, tt := range map[string]struct {
		reason string
		change func(*follower)
		want   []string
	}{
		"use":        {"the use is not the value of the flag", func(f *follower) { f.handler().OnUpdate(nil, shown(dark, on)) }, nil},
		"first list": {"nobody has asked before", func(f *follower) { f.handler().OnAdd(shown("example.com/new", on), true) }, nil},
		"new":        {"the value was the default", func(f *follower) { f.handler().OnAdd(shown("example.com/new", on), false) }, []string{"example.com/new"}},
		"new, of nothing": {"0 is another value than the default", func(f *follower) {
			f.handler().OnAdd(shown("example.com/new", quotav1alpha1.EffectiveResourceGrantStatus{}), false)
		}, []string{"example.com/new"}},
		"no figures yet": {"the value is still the default", func(f *follower) { f.handler().OnAdd(unfinished, false) }, nil},
		"off": {"", func(f *follower) {
			f.handler().OnUpdate(nil, shown(dark, quotav1alpha1.EffectiveResourceGrantStatus{Feature: quotav1alpha1.FeatureOff}))
		}, []string{dark}},
		"gone":           {"the value is the default", func(f *follower) { f.handler().OnDelete(shown(dark, on)) }, []string{dark}},
		"another object": {"the known one is still there", func(f *follower) { f.handler().OnDelete(elsewhere) }, nil},
		"another unit":   {"a string flag has it", func(f *follower) { f.handler().OnUpdate(nil, shown("example.com/storage", kibibytes)) }, []string{"example.com/storage"}},
		"several": {"they join", func(f *follower) {
			f.handler().OnAdd(shown("example.com/new", on), false)
			f.handler().OnDelete(shown("example.com/new", on))
			f.handler().OnDelete(shown(dark, on))
		}, []string{"example.com/new", dark}},
	} {
		f := newFollower().knows()
		tt.change(f)
		event, _ := f.events.next()
		if diff := cmp.Diff(tt.want, event.FlagChanges); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tt.reason, diff)
		}
		if event, ok := f.events.next(); ok {
			t.Errorf("%s: another event: %+v", name, event)
		}
	}
}

// A reader learns of the state whenever it differs from what OpenFeature knows.
func TestEventsOfTheState(t *testing.T) {
	const ready, stale = openfeature.ProviderReady, openfeature.ProviderStale
	broken := errors.New("no route")
	for name, tt := range map[string]struct {
		reason string
		change func(*outbox)
		want   []openfeature.EventType
	}{
		"start":              {"OpenFeature emits the event itself", func(o *outbox) { o.begin(); o.ready(); o.end(nil) }, nil},
		"no list":            {"OpenFeature emits the event itself", func(o *outbox) { o.begin(); o.lost(broken); o.end(broken) }, nil},
		"list after the end": {"OpenFeature reported an error", func(o *outbox) { o.begin(); o.end(broken); o.regained(); o.ready() }, []openfeature.EventType{ready}},
		"lost":               {"", func(o *outbox) { o.begin(); o.ready(); o.end(nil); o.lost(broken) }, []openfeature.EventType{stale}},
		"lost twice":         {"once is enough", func(o *outbox) { o.begin(); o.ready(); o.end(nil); o.lost(broken); o.lost(broken) }, []openfeature.EventType{stale}},
		"lost in the start":  {"OpenFeature reported that it is ready", func(o *outbox) { o.begin(); o.ready(); o.lost(broken); o.end(nil) }, []openfeature.EventType{stale}},
		"lost and back":      {"nobody has read the first event", func(o *outbox) { o.begin(); o.ready(); o.end(nil); o.lost(broken); o.regained() }, nil},
		"another start": {"OpenFeature reported that it is ready again", func(o *outbox) {
			o.begin()
			o.ready()
			o.end(nil)
			o.lost(broken)
			o.next()
			o.begin()
			o.end(nil)
		}, []openfeature.EventType{stale}},
	} {
		o := &newFollower().events
		tt.change(o)
		var got []openfeature.EventType
		for event, ok := o.next(); ok; event, ok = o.next() {
			got = append(got, event.EventType)
			if event.EventType == stale && event.Message != "quota may be out of date: no route" {
				t.Errorf("%s: the message is %q", name, event.Message)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tt.reason, diff)
		}
	}
}
