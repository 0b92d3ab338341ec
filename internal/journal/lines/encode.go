package lines

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/bursar/bursar/internal/journal"
)

// Append appends entries to buffer, a line each.
func Append(buffer []byte, entries []journal.Entry) ([]byte, error) {
	for i := range entries {
		line, err := entries[i].MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode journal entry %s: %w", entries[i].ID(), err)
		}
		if bytes.IndexByte(line, '\n') >= 0 {
			return nil, fmt.Errorf("encode journal entry %s: the line contains a newline", entries[i].ID())
		}
		buffer = append(append(buffer, line...), '\n')
	}
	return buffer, nil
}

// Writer is a [journal.Sink] that writes lines to standard output. A collector of logs takes them there. An entry is
// as safe as the collector makes it: a sink can wait for nothing but the return of the write here.
type Writer struct {
	out    io.Writer
	buffer []byte
	// torn is set after a failed write in the middle of a line.
	torn bool
}

var _ journal.Sink = (*Writer)(nil)

// NewWriter returns a sink for out, with one Write call for each line. So lines of other writers come between lines
// only, if out writes each call as a whole, as a pipe does for lines of up to 4096 bytes.
func NewWriter(out io.Writer) *Writer {
	return &Writer{out: out}
}

// Append implements [journal.Sink].
func (w *Writer) Append(ctx context.Context, entries []journal.Entry) error {
	for i := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := Append(w.buffer[:0], entries[i:i+1])
		if err != nil {
			return err
		}
		w.buffer = line
		if w.torn {
			line = append([]byte{'\n'}, line...)
		}
		n, err := w.out.Write(line)
		if err == nil && n < len(line) {
			err = io.ErrShortWrite
		}
		if err != nil {
			w.torn = w.torn || n > 0
			return fmt.Errorf("write journal entry %s: %w", entries[i].ID(), err)
		}
		w.torn = false
	}
	return nil
}

// Probe implements [journal.Sink]. A line without an entry would only disturb the log, so it writes nothing.
func (*Writer) Probe(ctx context.Context) error { return ctx.Err() }

// Close implements [journal.Sink]. The writer stays open.
func (*Writer) Close() error { return nil }
