package history

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

func TestShowback(t *testing.T) {
	huge := write(quotav1alpha1.ConsumerRef{Kind: "Project", Name: "huge"})
	huge.levels["shop/maps"] = level{limit: 1<<63 - 1}
	huge.maps(1, journal.Admitted, "a", 1<<63-1)
	for name, tt := range map[string]struct {
		entries   entries
		selection Selection
		period    Period
		want      string
	}{
		"all": {shop(), Selection{Now: at(24)}, PeriodAll, `
Project,data,,example.com,shop/maps,map,2026-11-01T01:00:00Z,2026-11-02T00:00:00Z,46,230,3
Project,web,,example.com,shop/maps,map,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,102,144,8
`},
		"by day, with what was in use before": {shop(), Selection{Consumer: "project/web", Since: at(23), Until: at(49), Now: at(60)}, PeriodDay, `
Project,web,,example.com,shop/maps,map,2026-11-01T23:00:00Z,2026-11-02T00:00:00Z,5,6,5
Project,web,,example.com,shop/maps,map,2026-11-02T00:00:00Z,2026-11-03T00:00:00Z,120,144,5
Project,web,,example.com,shop/maps,map,2026-11-03T00:00:00Z,2026-11-03T01:00:00Z,5,6,5
`},
		"by month": {shop(), Selection{Consumer: "project/web", Since: at(-48), Until: at(24), Now: at(60)}, PeriodMonth, `
Project,web,,example.com,shop/maps,map,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,102,144,8
`},
		"the first entry tells what was before it": {
			write(web).maps(4, journal.Released, "a", -3).written, window(1, 5), PeriodAll,
			"\nProject,web,,example.com,shop/maps,map,2026-11-01T01:00:00Z,2026-11-01T05:00:00Z,0,0,0\n",
		},
		"huge": {huge.written, window(0, 25), PeriodAll, `
Project,huge,,,shop/maps,map,2026-11-01T00:00:00Z,2026-11-02T01:00:00Z,221360928884514619368,230584300921369395175,9223372036854775807
`},
		"parts of an hour": {write(web).maps(0, journal.Admitted, "a", 1).written, window(0, 1./3), PeriodAll, `
Project,web,,example.com,shop/maps,map,2026-11-01T00:00:00Z,2026-11-01T00:20:00Z,0.333333,0,1
`},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "the first entry tells what was before it" {
				tt.entries[0].Used = 0 // of 3
				tt.want = strings.Replace(tt.want, ",0,0,0\n", ",9,0,3\n", 1)
			}
			showback, err := ReadShowback(t.Context(), tt.entries, tt.selection, tt.period, Units{"shop/maps": usage.Unit{Base: "map"}})
			if err != nil {
				t.Fatal(err)
			}
			var page strings.Builder
			if err := showback.Print(&page, ""); err != nil {
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(page.String(), "\n")
			checkText(t, got, tt.want)
		})
	}
	if _, err := ReadShowback(t.Context(), shop(), window(0, 1), "week", nil); err == nil || err.Error() != `--step: there is no step "week"; choose day or month` {
		t.Error(err)
	}
}

// drawJournal draws a journal of a few consumers, with gaps and openings. Its times are whole seconds, and may step
// back.
func drawJournal(t *rapid.T) entries {
	var all []entries
	for i := range rapid.IntRange(1, 3).Draw(t, "consumers") {
		w := write(quotav1alpha1.ConsumerRef{Kind: "Project", Name: fmt.Sprint(i)})
		second := rapid.IntRange(0, 50).Draw(t, "first")
		live := map[string]int64{}
		earliest := 0 // after the latest Changed entry
		for j := range rapid.IntRange(0, 30).Draw(t, "entries") {
			second = max(earliest, second+rapid.IntRange(-min(2, second), 20).Draw(t, "seconds"))
			hours := float64(second) / 3600
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				w.open(hours, rapid.Int64Range(0, 3).Draw(t, "lost"), rapid.Int64Range(0, 9).Draw(t, "used"), rapid.Int64Range(0, 9).Draw(t, "limit"))
				clear(live)
			case 1:
				w.limit(hours, rapid.Int64Range(-w.levels["shop/maps"].limit, 9).Draw(t, "limit"), "base", "")
			case 2, 3, 4:
				for uid, amount := range live { // there is at most one
					w.maps(hours, journal.Released, uid, -amount)
				}
				clear(live)
			case 5:
				second++ // one change has one time
				hours = float64(second) / 3600
				for uid, amount := range live {
					change := rapid.Int64Range(-amount, 5).Draw(t, "change")
					w.maps(hours, journal.Changed, uid, change)
					live[uid] += change
					earliest = second + 1
				}
			default:
				amount := rapid.Int64Range(1, 5).Draw(t, "amount")
				uid := fmt.Sprint(j)
				w.maps(hours, journal.Admitted, uid, amount)
				if len(live) == 0 {
					live[uid] = amount
				}
			}
		}
		all = append(all, w.written)
	}
	var merged entries
	for len(all) > 0 { // in any order of consumers
		i := rapid.IntRange(0, len(all)-1).Draw(t, "next")
		if len(all[i]) == 0 {
			all = append(all[:i], all[i+1:]...)
			continue
		}
		merged, all[i] = append(merged, all[i][0]), all[i][1:]
	}
	return merged
}

// levelsBySecond returns the level of maps of a consumer in each second of a window.
func levelsBySecond(all entries, consumer quotav1alpha1.ConsumerRef, from, until int) []level {
	var mine entries
	for _, e := range all {
		if e.Consumer == consumer {
			mine = append(mine, e)
		}
	}
	levels := make([]level, 0, until-from)
	for second := from; second < until; second++ {
		var now level
		for i, e := range mine {
			before := level{e.Used, e.Limit}
			if e.Kind == journal.LimitChanged {
				before.limit -= e.Change
			} else {
				before.used -= e.Change
			}
			if i == 0 && e.Kind != journal.Opened {
				now = before
			}
			latest := -1
			for _, earlier := range mine[:i+1] {
				latest = max(latest, int(earlier.Time.Sub(start)/time.Second))
			}
			if latest > second {
				break
			}
			if now = (level{e.Used, e.Limit}); e.Kind == journal.Opened {
				now = openedLevel(e.Opening, "shop/maps")
			}
		}
		levels = append(levels, now)
	}
	return levels
}

func TestShowbackEqualsASumOverSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawJournal(t)
		from := rapid.IntRange(0, 200).Draw(t, "from")
		until := from + rapid.IntRange(1, 400).Draw(t, "length")
		selection := Selection{Since: start.Add(time.Duration(from) * time.Second), Now: start.Add(time.Duration(until) * time.Second)}
		showback, err := ReadShowback(t.Context(), all, selection, PeriodAll, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[quotav1alpha1.ConsumerRef]*line{}
		for _, l := range showback.lines {
			got[l.consumer] = l
		}
		seen := map[quotav1alpha1.ConsumerRef]bool{}
		for _, e := range all {
			seen[e.Consumer] = true
		}
		for consumer := range seen {
			var used, limit int64
			for _, l := range levelsBySecond(all, consumer, from, until) {
				used, limit = used+l.used*1000, limit+l.limit*1000
			}
			l := got[consumer]
			if l == nil {
				l = &line{}
			}
			if l.usedMs.Cmp(big.NewInt(used)) != 0 || l.limitMs.Cmp(big.NewInt(limit)) != 0 {
				t.Fatalf("%s: used %s and limit %s, want %d and %d", consumer.Name, &l.usedMs, &l.limitMs, used, limit)
			}
		}
	})
}

// The lines of days add up to the line of the whole window.
func TestShowbackStepsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawJournal(t)
		for i := range all { // a second becomes an hour
			all[i].Time = start.Add(all[i].Time.Sub(start) * 3600)
		}
		selection := window(float64(rapid.IntRange(0, 100).Draw(t, "from")), float64(rapid.IntRange(101, 900).Draw(t, "until")))
		for _, period := range []Period{PeriodDay, PeriodMonth} {
			total := map[account]*line{}
			for i, p := range []Period{PeriodAll, period} {
				showback, err := ReadShowback(t.Context(), all, selection, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range showback.lines {
					sum := total[l.account]
					if sum == nil {
						sum = &line{}
						total[l.account] = sum
					}
					if i == 0 {
						sum.usedMs.Add(&sum.usedMs, &l.usedMs)
						sum.limitMs.Add(&sum.limitMs, &l.limitMs)
						continue
					}
					sum.usedMs.Sub(&sum.usedMs, &l.usedMs)
					sum.limitMs.Sub(&sum.limitMs, &l.limitMs)
					sum.peak = max(sum.peak, l.peak)
				}
			}
			for a, l := range total {
				if l.usedMs.Sign() != 0 || l.limitMs.Sign() != 0 {
					t.Fatalf("%v by %s: %s and %s are missing", a, period, &l.usedMs, &l.limitMs)
				}
			}
		}
	})
}
