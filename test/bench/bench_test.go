package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/test/platform"
)

// TestLatencyCountsFromWhenDue offers more than a client can do: waiting operations are late, however quick each of
// them is once it begins.
func TestLatencyCountsFromWhenDue(t *testing.T) {
	const duration, takes = 100 * time.Millisecond, 5 * time.Millisecond
	b := bench{rate: 400}
	slow := func(ctx context.Context, _, _ int) error { return waitFor(ctx, takes) }
	r := b.offer(t.Context(), 1, duration, slow)[0]
	if late := takes*time.Duration(r.count) - duration; r.slowest < late || late < 2*takes {
		t.Errorf("the slowest of %d took %s, want at least the %s by which the last one is late", r.count, r.slowest, late)
	}
}

// TestOfferTakesTurns offers two operations and wants as many of one as of the other.
func TestOfferTakesTurns(t *testing.T) {
	b := bench{rate: 500}
	nothing := func(context.Context, int, int) error { return nil }
	pair := b.offer(t.Context(), 4, 200*time.Millisecond, nothing, nothing)
	if first, second := pair[0].count, pair[1].count; first < 60 || first-second > 1 || first < second {
		t.Errorf("%d and %d were carried out, want about 100 of each", first, second)
	}
}

func TestValueIn(t *testing.T) {
	page := []byte("# HELP writes_total Writes.\nwrites_total{outcome=\"committed\"} 12\nwrites_total{outcome=\"conflict\"} 1.5e+01\n")
	for metric, want := range map[string]float64{
		`writes_total{outcome="committed"}`: 12, `writes_total{outcome="conflict"}`: 15, `writes_total`: 0, `other_total`: 0,
	} {
		if got := valueIn(page, metric); got != want {
			t.Errorf("%s: got %g, want %g", metric, got, want)
		}
	}
}

// TestRenamer makes one consumer's object another's. References to the consumer and to its own objects follow, and
// others stay. The length stays too, as encodings need it.
func TestRenamer(t *testing.T) {
	const own, foreign = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	from, to := platform.Consumer(standing(0)), platform.Consumer(standing(17))
	object := strings.Join([]string{own, foreign, from.Name, naming.Ledger(from), naming.Bucket(from, resourceType, nil)}, " ")
	b := belongings{uids: []string{own}}
	got := b.renamer(from.Name, to.Name).Replace(object)
	fields := strings.Fields(got)
	if len(got) != len(object) || fields[0] == own {
		t.Errorf("got %s from %s: want another UID and the same length", got, object)
	}
	want := strings.Join([]string{foreign, to.Name, naming.Ledger(to), naming.Bucket(to, resourceType, nil)}, " ")
	if rest := strings.Join(fields[1:], " "); rest != want {
		t.Errorf("got %s, want %s", rest, want)
	}
}

func TestResourceOf(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/configmaps/standing/a":                     "configmaps",
		"/registry/quota.miloapis.com/resourceclaims/space/a": "resourceclaims",
		"/registry/namespaces/a":                              "namespaces",
	} {
		if got := resourceOf(key); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

func TestChosenFrom(t *testing.T) {
	chosen, err := chosenFrom("restart, creates")
	if err != nil || len(chosen) != 2 || chosen[0].name != "creates" || chosen[1].name != "restart" {
		t.Errorf("got %v and %v, want creates and restart in the order in which they are made", chosen, err)
	}
	if _, err := chosenFrom("creates,nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v, want that there is no such measurement", err)
	}
}
