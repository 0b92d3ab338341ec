package history

import (
	"fmt"
	"slices"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/journal"
)

// Gap is a time with unknown use and limits of a consumer, because entries of its journal are missing.
type Gap struct {
	ConsumerRef quotav1alpha1.ConsumerRef `json:"consumerRef"`
	// Since is the time of the entry before the gap, if any, and Until the time of the entry after it.
	Since *time.Time `json:"since,omitempty"`
	Until time.Time  `json:"until"`
	// Lost is how many entries are missing, or 0 if nobody knows.
	Lost int64 `json:"lost,omitempty"`
}

// gapBefore returns the gap before an entry, or nil. A gap follows from lost changes, from an Opened entry with other
// levels than the entries before it, or from missing numbers.
func (s *state) gapBefore(e *journal.Entry) *Gap {
	gap := &Gap{ConsumerRef: e.Consumer, Until: e.Time}
	if s.sequence != 0 {
		gap.Since = &s.clock
	}
	switch {
	case e.Kind == journal.Opened:
		if e.Opening != nil {
			gap.Lost = e.Opening.Lost
		}
		isOther := func(resourceType string) bool { return s.levels[resourceType] != openedLevel(e.Opening, resourceType) }
		if gap.Lost == 0 && (gap.Since == nil || !slices.ContainsFunc(s.opened(e.Opening), isOther)) {
			return nil
		}
	case gap.Since == nil || s.latest == journal.Opened || e.Sequence <= s.sequence+1:
		return nil
	default:
		gap.Lost = e.Sequence - s.sequence - 1
	}
	if gap.Since != nil {
		gap.Since = new(s.clock) // the clock goes on
	}
	return gap
}

// gapsIn returns the gaps in a window, sorted by time.
func (n *names) gapsIn(s *Selection) []Gap {
	found := slices.DeleteFunc(n.gaps, func(g Gap) bool { return g.Until.Before(s.Since) })
	slices.SortStableFunc(found, func(a, b Gap) int { return a.Until.Compare(b.Until) })
	return found
}

// Text explains a gap.
func (g *Gap) Text() string {
	consumer, lost := nameOf(g.ConsumerRef), message.Count(g.Lost, "change", "changes")
	switch {
	case g.Since == nil:
		return fmt.Sprintf("The journal has a gap before %s: it lost %s of %s.", inUTC(g.Until), lost, consumer)
	case g.Lost == 0:
		return fmt.Sprintf("The journal has a gap from %s to %s: the changes of %s are unknown.", inUTC(*g.Since), inUTC(g.Until), consumer)
	default:
		return fmt.Sprintf("The journal has a gap from %s to %s: it lost %s of %s.", inUTC(*g.Since), inUTC(g.Until), lost, consumer)
	}
}
