package history

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/usage"
)

// Period is the length of the lines of a showback.
type Period string

// The periods. Days and months are those of UTC.
const (
	// PeriodAll is the whole window.
	PeriodAll   Period = ""
	PeriodDay   Period = "day"
	PeriodMonth Period = "month"
)

// Check returns an error for an unknown period.
func (p Period) Check() error {
	if p != PeriodAll && p != PeriodDay && p != PeriodMonth {
		return fmt.Errorf("--step: there is no step %q; choose day or month", string(p))
	}
	return nil
}

// bounds returns the period of a time: the start is in it, the end is not.
func (p Period) bounds(t time.Time) (start, end time.Time) {
	year, month, day := t.UTC().Date()
	if p == PeriodMonth {
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC), time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
}

// hourMs is how many milliseconds an hour has.
const hourMs = int64(time.Hour / time.Millisecond)

// hoursDigitsMax bounds the digits of amount-hours after the point.
const hoursDigitsMax = 6

// Showback is how long consumers had and used how much.
type Showback struct {
	lines []*line
	units Units
}

// line is the use of one account in one period.
type line struct {
	account
	from, until time.Time
	// usedMs and limitMs are amounts times milliseconds.
	usedMs, limitMs big.Int
	peak            int64
}

// tally is an account under count.
type tally struct {
	account
	// start is the start of its window, and at the time up to which its use is in the lines.
	start, at time.Time
	level     level
	line      *line // the latest line, if there is one
}

// counting counts amount-milliseconds up to the end of a window.
type counting struct {
	period Period
	end    time.Time
	lines  []*line
}

// ReadShowback counts the use of the selected accounts in the window, in lines of a period. Before its first entry, an
// account has no lines, unless the window begins earlier. If the first entry changes a level, the level from before
// counts from the start of the window. If it is Opened, the time before is unknown.
func ReadShowback(ctx context.Context, source journal.Source, selection Selection, period Period, units Units) (*Showback, error) {
	if err := cmp.Or(selection.Check(), period.Check()); err != nil {
		return nil, err
	}
	c := &counting{period: period, end: selection.end().Truncate(time.Millisecond)}
	tallies := map[account]*tally{}
	_, err := eachStep(ctx, source, &selection, false, func(s *step) {
		t := tallies[s.account]
		if t == nil {
			start := selection.starts(s.time).Truncate(time.Millisecond)
			t = &tally{account: s.account, start: start, at: start, level: s.before}
			tallies[s.account] = t
		}
		c.advance(t, s.time)
		t.level = s.after
		if l := c.lineOf(t); l != nil && !s.time.Before(t.start) {
			l.peak = max(l.peak, t.level.used)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, t := range tallies {
		c.advance(t, c.end)
	}
	c.lines = slices.DeleteFunc(c.lines, func(l *line) bool { return !l.isUsed() })
	slices.SortFunc(c.lines, func(a, b *line) int { return cmp.Or(compareAccounts(a.account, b.account), a.from.Compare(b.from)) })
	return &Showback{lines: c.lines, units: units}, nil
}

// advance counts the level of an account until a time or the end of the window.
func (c *counting) advance(t *tally, until time.Time) {
	until = earlier(until.Truncate(time.Millisecond), c.end)
	for t.at.Before(until) {
		if t.level == (level{}) {
			t.at = until
			return
		}
		l := c.lineOf(t)
		stop := earlier(until, l.until)
		ms := stop.Sub(t.at).Milliseconds()
		add(&l.usedMs, t.level.used, ms)
		add(&l.limitMs, t.level.limit, ms)
		l.peak = max(l.peak, t.level.used)
		t.at = stop
	}
}

// lineOf returns the present line of an account, or nil at the end of the window.
func (c *counting) lineOf(t *tally) *line {
	switch {
	case !t.at.Before(c.end):
		return nil
	case t.line != nil && t.at.Before(t.line.until):
		return t.line
	}
	t.line = &line{account: t.account, from: t.start, until: c.end}
	if c.period != PeriodAll {
		start, end := c.period.bounds(t.at)
		t.line.until = earlier(end, c.end)
		if start.After(t.start) {
			t.line.from = start
		}
	}
	c.lines = append(c.lines, t.line)
	return t.line
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func add(total *big.Int, amount, ms int64) {
	var product big.Int
	total.Add(total, product.Mul(big.NewInt(amount), big.NewInt(ms)))
}

// IsEmpty reports whether there is nothing to print.
func (s *Showback) IsEmpty() bool { return len(s.lines) == 0 }

// isUsed reports whether a line has any use or limit.
func (l *line) isUsed() bool { return l.usedMs.Sign() != 0 || l.limitMs.Sign() != 0 || l.peak != 0 }

// Print writes the lines as CSV, the only format. Without lines it writes the heads.
func (s *Showback) Print(w io.Writer, _ usage.Format) error {
	out := csv.NewWriter(w)
	rows := [][]string{{
		"consumer_kind", "consumer_name", "consumer_namespace", "consumer_group", "resource_type", "unit", "from", "until",
		"used_amount_hours", "limit_amount_hours", "peak_used",
	}}
	for _, l := range s.lines {
		rows = append(rows, []string{
			l.consumer.Kind, l.consumer.Name, l.consumer.Namespace, l.consumer.APIGroup, l.resourceType, s.units[l.resourceType].Base,
			l.from.UTC().Format(time.RFC3339Nano), l.until.UTC().Format(time.RFC3339Nano),
			hours(&l.usedMs), hours(&l.limitMs), strconv.FormatInt(l.peak, 10),
		})
	}
	return out.WriteAll(rows)
}

// hours writes amount-milliseconds as amount-hours, rounded to a millionth.
func hours(ms *big.Int) string {
	text := new(big.Rat).SetFrac(ms, big.NewInt(hourMs)).FloatString(hoursDigitsMax)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
