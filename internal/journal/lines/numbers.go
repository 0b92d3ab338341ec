package lines

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/internal/journal"
)

// run is numbers without a gap, from first to last.
type run struct{ first, last int64 }

// runs are the numbers of the entries of one ledger, sorted and disjoint once merged.
type runs []run

// add adds a number. It is cheap for increasing numbers.
func (r runs) add(number int64) runs {
	if n := len(r) - 1; n >= 0 {
		switch last := &r[n]; {
		case number == last.last+1:
			last.last++
			return r
		case number >= last.first && number <= last.last:
			return r
		}
	}
	return append(r, run{number, number})
}

// merge sorts the runs and joins adjacent ones.
func (r runs) merge() runs {
	slices.SortFunc(r, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	merged := r[:0]
	for _, next := range r {
		if n := len(merged) - 1; n >= 0 && next.first <= merged[n].last+1 {
			merged[n].last = max(merged[n].last, next.last)
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

// after returns the first number after the given one.
func (r runs) after(number int64) (next int64, found bool) {
	i, _ := slices.BinarySearchFunc(r, number+1, func(a run, n int64) int { return cmp.Compare(a.last, n) })
	if i == len(r) {
		return 0, false
	}
	return max(number+1, r[i].first), true
}

// numbers returns the numbers of the entries in the streams, by ledger. The query bounds the streams read at the same
// time, and collects the damage.
func numbers(ctx context.Context, streams []Stream, only string, query *journal.Query) (map[string]runs, error) {
	var mu sync.Mutex
	all := map[string]runs{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(query.Workers())
	for _, stream := range streams {
		group.Go(func() error {
			found, err := numbersOf(ctx, stream, only, query.Damage)
			mu.Lock()
			defer mu.Unlock()
			for ledger, its := range found {
				all[ledger] = append(all[ledger], its...)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for ledger, its := range all {
		all[ledger] = its.merge()
	}
	return all, nil
}

func numbersOf(ctx context.Context, stream Stream, only string, damage *journal.Damage) (map[string]runs, error) {
	from := newReader(stream, only, damage)
	defer from.close()
	found := map[string]runs{}
	for {
		l, err := from.next(ctx)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		found[l.ledger] = found[l.ledger].add(l.sequence)
	}
}
