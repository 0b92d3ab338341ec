package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/lines"
)

// Modes of the directory and the files: the journal names people.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// idleMax is the time since its last write after which the sink no longer appends to a file.
const idleMax = time.Hour

// Options configure a [Sink].
type Options struct {
	// Dir is the directory. The sink creates it if it is missing.
	Dir string
	// Replica is the name of this process, unique in the directory.
	Replica string
	// FileBytesMax is the size at which the sink finishes a file.
	FileBytesMax int64
	// Retention is the age, by its last entry, at which the sink deletes a file. It is at least RetentionMin.
	Retention time.Duration
	// BytesMax bounds the size of all files together. Only files with a possible writer stay in any case.
	BytesMax int64
	// Log receives the failures with finished files, because no caller waits for these.
	Log logr.Logger
}

// Sink is a [journal.Sink] of files.
type Sink struct {
	o Options
	// now is the clock.
	now func() time.Time

	// mu guards current, because the keeper reads it.
	mu      sync.Mutex
	current *os.File

	began time.Time
	// size is the stored size of the current file, and wrote is the time of its last write.
	size   int64
	wrote  time.Time
	buffer []byte
	tended time.Time
	keeper *keeper

	// early counts the files deleted before the end of their retention.
	early prometheus.Counter
}

var _ journal.Sink = (*Sink)(nil)

// NewSink opens the sink. It repairs the files left by a crash of this replica.
func NewSink(o Options) (*Sink, error) {
	return newSink(o, time.Now)
}

func newSink(o Options, now func() time.Time) (*Sink, error) {
	if err := checkReplica(o.Replica); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, dirMode); err != nil {
		return nil, fmt.Errorf("create the directory of the journal: %w", err)
	}
	s := &Sink{o: o, now: now, tended: now(), early: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "bursar_journal_files_deleted_early_total",
		Help: "Number of files of the journal deleted before the end of their retention, because all files together were too large.",
	})}
	s.keeper = &keeper{sink: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if err := s.keeper.repair(); err != nil {
		return nil, fmt.Errorf("repair the journal in %s after the last run: %w", o.Dir, err)
	}
	s.keeper.start()
	return s, nil
}

// Collectors returns the metric, for registration.
func (s *Sink) Collectors() []prometheus.Collector { return []prometheus.Collector{s.early} }

// Append implements [journal.Sink].
func (s *Sink) Append(ctx context.Context, entries []journal.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	text, err := lines.Append(s.buffer[:0], entries)
	if err != nil {
		return err
	}
	s.buffer = text
	if s.current != nil && !s.fits(int64(len(text))) {
		s.finish()
	}
	if s.current == nil {
		if err := s.create(); err != nil {
			return fmt.Errorf("create a file of the journal in %s: %w", s.o.Dir, causeOf(err))
		}
	}
	if err := write(s.current, text); err != nil {
		err = fmt.Errorf("append to the journal in %s: %w", s.o.Dir, causeOf(err))
		s.abandon()
		return err
	}
	s.size += int64(len(text))
	s.wrote = s.now()
	if s.wrote.Sub(s.tended) >= tendInterval {
		s.tend()
	}
	return nil
}

// probeBytes is the size of a probe: a full disk may still have room for an empty file.
const probeBytes = 4096

// Probe implements [journal.Sink]. It writes a file that nobody takes for one of the journal, and deletes it.
func (s *Sink) Probe(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.o.Dir, dirMode); err != nil {
		return fmt.Errorf("create the directory of the journal: %w", err)
	}
	path := filepath.Join(s.o.Dir, ".probe"+temporarySuffix(s.o.Replica))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err == nil {
		err = errors.Join(write(file, make([]byte, probeBytes)), file.Close(), removeIfExists(path))
	}
	if err != nil {
		return fmt.Errorf("append to the journal in %s: %w", s.o.Dir, causeOf(err))
	}
	return nil
}

// causeOf returns an error without the name of the file: each attempt has a new one, and one fault would have as many
// texts as attempts.
func causeOf(err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// write writes and syncs.
func write(file *os.File, text []byte) error {
	if n, err := file.Write(text); err != nil {
		return err
	} else if n < len(text) {
		return io.ErrShortWrite
	}
	return file.Sync()
}

// fits reports whether the current file still exists, and has room for so many bytes.
func (s *Sink) fits(bytes int64) bool {
	if s.size > 0 && s.size+bytes > s.o.FileBytesMax || s.now().Sub(s.wrote) > idleMax {
		return false
	}
	named, err := os.Stat(s.current.Name())
	if err != nil {
		return false
	}
	opened, err := s.current.Stat()
	return err == nil && os.SameFile(named, opened)
}

// create begins a file.
func (s *Sink) create() error {
	now := s.now().UTC()
	if !now.After(s.began) { // the clock was set back, or is coarse
		now = s.began.Add(1)
	}
	path := filepath.Join(s.o.Dir, name{now, s.o.Replica}.String()+plain)
	s.mu.Lock()
	defer s.mu.Unlock()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, fileMode)
	if errors.Is(err, fs.ErrNotExist) { // somebody deleted the directory
		if err := os.MkdirAll(s.o.Dir, dirMode); err != nil {
			return err
		}
		file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, fileMode)
	}
	if err != nil {
		return err
	}
	if err := syncDir(s.o.Dir); err != nil {
		return errors.Join(err, file.Close(), os.Remove(path))
	}
	s.current, s.began, s.size, s.wrote = file, now, 0, s.now()
	return nil
}

// abandon ends the current file after a failed write: nobody knows how much of that write the system has, so nothing
// may follow it. It cuts off as much as possible now, and the compression of the file cuts off the rest.
func (s *Sink) abandon() {
	_ = s.current.Truncate(s.size) // a torn line at the end does no harm
	s.finish()
}

// finish ends the current file.
func (s *Sink) finish() {
	s.mu.Lock()
	file := s.current
	s.current = nil
	s.mu.Unlock()
	if err := file.Close(); err != nil {
		// Every promised entry is synced.
		s.o.Log.Error(err, "The journal cannot close a file", "file", file.Name())
	}
	s.tend()
}

// tend wakes the keeper.
func (s *Sink) tend() {
	s.tended = s.now()
	s.keeper.tend()
}

// Close implements [journal.Sink].
func (s *Sink) Close() error {
	s.keeper.stop()
	if s.current == nil {
		return nil
	}
	return s.current.Close()
}

// open returns the base name of the current file. It holds mu.
func (s *Sink) open() string {
	if s.current == nil {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(s.current.Name()), plain)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
