package lines

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/naming"
)

// order puts the lines of streams in order: those of a ledger by number, each once.
type order struct {
	// heads are the streams with a next line, the oldest first.
	heads heads
	// exist are the numbers of each ledger, or nil for one stream in order.
	exist map[string]runs
	// last is the number of the last line of each ledger, and seen are those before it, if exist is nil.
	last map[string]int64
	seen map[string]runs
	// waiting are the lines with a missing predecessor, by ledger and number.
	waiting map[string]map[int64]*line
	// ready are the lines that waited until their turn came.
	ready []*line
}

// head is a stream and its next line.
type head struct {
	from *reader
	line *line
}

type heads []head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return bytes.Compare(h[i].line.time, h[j].line.time) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *heads) Push(x any) { *h = append(*h, x.(head)) }

// Pop implements [heap.Interface].
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// newOrder begins to read the streams. With mixed it does not rely on the order of a single one.
func newOrder(ctx context.Context, streams []Stream, query *journal.Query, mixed bool) (*order, error) {
	only := ""
	if query.Consumer != nil {
		only = naming.Ledger(*query.Consumer)
	}
	o := &order{last: map[string]int64{}, seen: map[string]runs{}, waiting: map[string]map[int64]*line{}}
	if len(streams) > 1 || mixed {
		var err error
		if o.exist, err = numbers(ctx, streams, only, query); err != nil {
			return nil, err
		}
	}
	for _, stream := range streams {
		from := newReader(stream, only, query.Damage)
		first, err := from.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			from.close()
		case err != nil:
			from.close()
			o.close()
			return nil, err
		default:
			o.heads = append(o.heads, head{from, first})
		}
	}
	heap.Init(&o.heads)
	return o, nil
}

func (o *order) close() {
	for _, h := range o.heads {
		h.from.close()
	}
}

// next calls add with the next line. The line is valid during the call. It returns [io.EOF] at the end.
func (o *order) next(ctx context.Context, add func(*line)) error {
	for {
		if len(o.ready) > 0 {
			l := o.ready[0]
			o.ready = o.ready[1:]
			o.take(l, add)
			return nil
		}
		if len(o.heads) == 0 {
			if !o.flush() {
				return io.EOF
			}
			continue
		}
		taken, err := o.place(o.heads[0].line, add)
		if err != nil {
			return err
		}
		if err := o.advance(ctx); err != nil {
			return err
		}
		if taken {
			return nil
		}
	}
}

// advance replaces the oldest head by the next line of its stream.
func (o *order) advance(ctx context.Context) error {
	next, err := o.heads[0].from.next(ctx)
	switch {
	case errors.Is(err, io.EOF):
		o.heads[0].from.close()
		heap.Pop(&o.heads)
	case err != nil:
		return err
	default:
		o.heads[0].line = next
		if len(o.heads) > 1 {
			heap.Fix(&o.heads, 0)
		}
	}
	return nil
}

// place takes a line, drops it if it was there before, or makes it wait.
func (o *order) place(l *line, add func(*line)) (taken bool, err error) {
	last, begun := o.last[l.ledger]
	if o.exist == nil {
		switch {
		case !begun || l.sequence > last:
			o.seen[l.ledger] = o.seen[l.ledger].add(l.sequence)
			o.take(l, add)
			return true, nil
		case o.seen[l.ledger].has(l.sequence):
			return false, nil
		}
		return false, fmt.Errorf("read the journal in %s: line %d: entry %d of %s comes after entry %d", l.file, l.number, l.sequence, l.ledger, last)
	}
	if begun && l.sequence <= last || !o.exist[l.ledger].has(l.sequence) {
		return false, nil // it is a repetition, or newer than the beginning of this iteration
	}
	if next, found := o.exist[l.ledger].after(o.lastOf(l.ledger)); !found || l.sequence <= next {
		o.take(l, add)
		return true, nil
	}
	waiting := o.waiting[l.ledger]
	if waiting == nil {
		waiting = map[int64]*line{}
		o.waiting[l.ledger] = waiting
	}
	if waiting[l.sequence] == nil {
		kept := *l
		kept.text, kept.time = bytes.Clone(l.text), nil
		waiting[l.sequence] = &kept
	}
	return false, nil
}

// lastOf returns the number of the last line of a ledger, or one before all of them.
func (o *order) lastOf(ledger string) int64 {
	if last, begun := o.last[ledger]; begun {
		return last
	}
	if its := o.exist[ledger]; len(its) > 0 {
		return its[0].first - 1
	}
	return 0
}

// take adds a line, and readies its successor if that waits.
func (o *order) take(l *line, add func(*line)) {
	o.last[l.ledger] = l.sequence
	waiting := o.waiting[l.ledger]
	if len(waiting) > 0 {
		if next, found := o.exist[l.ledger].after(l.sequence); found && waiting[next] != nil {
			o.ready = append(o.ready, waiting[next])
			delete(waiting, next)
		}
	}
	add(l)
}

// flush readies the lines waiting for others deleted since the count. It reports whether there are any.
func (o *order) flush() bool {
	for _, waiting := range o.waiting {
		for _, number := range slices.Sorted(maps.Keys(waiting)) {
			o.ready = append(o.ready, waiting[number])
		}
	}
	clear(o.waiting)
	return len(o.ready) > 0
}

// has reports whether a number is in the sorted runs.
func (r runs) has(number int64) bool {
	next, found := r.after(number - 1)
	return found && next == number
}
