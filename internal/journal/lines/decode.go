package lines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/internal/journal"
)

// Bounds of one batch, and of the batches being decoded or waiting for it, for each processor.
const (
	batchLinesMax  = 1024
	batchBytesMax  = 1 << 20
	batchesPerProc = 2
)

// batch is the lines for one goroutine to decode.
type batch struct {
	text  []byte
	lines []line // without text
	ends  []int

	entries []journal.Entry
	err     error
	done    chan struct{}
}

func (b *batch) add(l *line) {
	b.text = append(b.text, l.text...)
	b.lines = append(b.lines, line{file: l.file, number: l.number})
	b.ends = append(b.ends, len(b.text))
}

// decode decodes the lines selected by the query. It skips damaged ones, or stops at the first of them if nobody
// collects damage.
func (b *batch) decode(query *journal.Query, decoder *journal.Decoder) {
	defer close(b.done)
	b.entries = make([]journal.Entry, 0, len(b.lines))
	begin := 0
	for i, end := range b.ends {
		var e journal.Entry
		err := decoder.Decode(b.text[begin:end], &e)
		begin = end
		if err != nil {
			if query.Damage.Add(b.lines[i].file, b.lines[i].number, err) {
				continue
			}
			b.err = fmt.Errorf("read the journal in %s: line %d: %w", b.lines[i].file, b.lines[i].number, err)
			return
		}
		if query.Matches(&e) {
			b.entries = append(b.entries, e)
		}
	}
	b.text, b.lines, b.ends = nil, nil, nil
}

// Merge yields the entries in the streams selected by the query. They share strings and dimensions as
// [journal.Decoder] says. Those of a consumer come in the order of their sequence, each once. A single stream must be
// in order, apart from repetitions, unless it is mixed: then, as for several streams, Merge opens files twice.
func Merge(ctx context.Context, streams []Stream, query journal.Query, mixed bool) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		lines, err := newOrder(ctx, streams, &query, mixed)
		if err != nil {
			yield(journal.Entry{}, err)
			return
		}
		defer lines.close()
		ctx, cancel := context.WithCancel(ctx)
		group, ctx := errgroup.WithContext(ctx)
		procs := query.Workers()
		batches, decoding := make(chan *batch, procs*batchesPerProc), make(chan *batch, procs*batchesPerProc)
		group.Go(func() error {
			defer close(batches)
			defer close(decoding)
			return lines.fill(ctx, decoding, batches)
		})
		for range procs {
			group.Go(func() error {
				var decoder journal.Decoder
				for b := range decoding {
					b.decode(&query, &decoder)
				}
				return nil
			})
		}
		stopped := yieldAll(batches, yield)
		cancel()
		for range batches { // the filling goroutine ends
		}
		if err := group.Wait(); err != nil && !stopped {
			yield(journal.Entry{}, err)
		}
	}
}

// yieldAll yields the entries of batches in order. It reports whether the iteration ended before the batches did.
func yieldAll(batches <-chan *batch, yield func(journal.Entry, error) bool) (stopped bool) {
	for b := range batches {
		<-b.done
		for i := range b.entries {
			if !yield(b.entries[i], nil) {
				return true
			}
		}
		if b.err != nil {
			yield(journal.Entry{}, b.err)
			return true
		}
	}
	return false
}

// fill sends batches of lines to the decoding goroutines, and in the same order to the yielding one.
func (o *order) fill(ctx context.Context, decoding, batches chan<- *batch) error {
	for {
		b := &batch{done: make(chan struct{})}
		var err error
		for err == nil && len(b.lines) < batchLinesMax && len(b.text) < batchBytesMax {
			err = o.next(ctx, b.add)
		}
		if len(b.lines) > 0 {
			decoding <- b // never blocks for good: decoding always goes on
			batches <- b
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}
