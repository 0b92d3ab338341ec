package history

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/overapi"
)

// trendMin is the minimum age of the first change of use for a forecast. The first hours of a consumer tell nothing of
// next week.
const trendMin = 24 * time.Hour

// Growth is the growth of the use in the window, in base units, from the first known level.
func (a *Account) Growth() int64 { return less(a.Used, a.begin.used) - less(a.begin.used, a.Used) }

// FullIn returns the time until the limit is reached, if the use grows as it did in the window. It is unknown without
// growth, and if the first change of use is less than a day old.
func (a *Account) FullIn() (after time.Duration, isKnown bool) {
	growth := a.Growth()
	first := slices.IndexFunc(a.levels, func(l levelAt) bool { return !l.time.Before(a.begin.time) && l.used != a.begin.used })
	if growth <= 0 || first < 0 || a.Until.Sub(a.levels[first].time) < trendMin {
		return 0, false
	}
	const longest = 100 * 365 * 24 * time.Hour
	length := a.Until.Sub(a.begin.time)
	left := float64(less(a.Limit, a.Used))
	return time.Duration(min(float64(length)*left/float64(growth), float64(longest))), true
}

// ErrTooLong reports a window with more entries than [Bounded] yields.
var ErrTooLong = errors.New("the journal has more entries in this time than can be shown: choose a shorter time")

// Bounded is a source that fails with [ErrTooLong] after Max entries, so that one page does not read a long journal.
type Bounded struct {
	*overapi.Source
	Max int
}

// Entries implements [journal.Source].
func (b Bounded) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		n := 0
		for entry, err := range b.Source.Entries(ctx, query) {
			if n++; n > b.Max && err == nil {
				yield(journal.Entry{}, ErrTooLong)
				return
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}
