package lines

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/bursar/bursar/internal/journal"
)

// lineBytesMax bounds a line. An Opened entry may be as large as a ledger.
const lineBytesMax = 64 << 20

// bufferBytes is the buffer of one stream; there may be hundreds.
const bufferBytes = 64 << 10

// File has lines, without compression.
type File interface {
	// Name names the file in errors.
	Name() string
	// Open opens the file at its beginning. [fs.ErrNotExist] means a deleted file, without lines.
	Open(ctx context.Context) (io.ReadCloser, error)
	// Finished reports whether the writer has written the file to its end. Otherwise its last line may be torn.
	Finished() bool
}

// Stream is the files of one writer, in the order of their writing.
type Stream []File

// line is one entry before its decoding.
type line struct {
	text   []byte
	file   string
	number int
	// ledger and sequence identify the entry. time is the time of its change, as text that sorts by time.
	ledger   string
	sequence int64
	time     []byte
}

// reader reads the lines of a stream.
type reader struct {
	files Stream
	// only, if set, is the only ledger to read.
	only string
	// damage receives the damaged lines. If it is nil, the first of them is an error.
	damage *journal.Damage
	// names has one string for each ledger, so lines need none of their own.
	names map[string]string

	open    io.ReadCloser
	buffer  *bufio.Reader
	long    []byte
	current line
}

func newReader(files Stream, only string, damage *journal.Damage) *reader {
	return &reader{files: files, only: only, damage: damage, names: map[string]string{}, buffer: bufio.NewReaderSize(nil, bufferBytes)}
}

func (r *reader) close() {
	if r.open != nil {
		_ = r.open.Close() // it was only read
		r.open = nil
	}
}

// next returns the next line, or [io.EOF]. It is valid until the next call.
func (r *reader) next(ctx context.Context) (*line, error) {
	for {
		if r.open == nil {
			if err := r.openNext(ctx); err != nil {
				return nil, err
			}
			continue
		}
		file := r.files[0]
		text, torn, err := r.readNext()
		if err != nil {
			return nil, err
		}
		if len(text) == 0 {
			continue
		}
		r.current.text = text
		if torn && !file.Finished() && !json.Valid(text) {
			continue // nobody got a promise of this entry
		}
		if err := r.identify(&r.current); err != nil {
			if err := r.skip(r.current.number, err, true); err != nil {
				return nil, err
			}
			continue
		}
		if r.only == "" || r.current.ledger == r.only {
			return &r.current, nil
		}
	}
}

// readNext returns the next line of the open file, or nothing for a line that it skips. torn is set at the end of a
// file without a line end.
func (r *reader) readNext() (text []byte, torn bool, err error) {
	text, err = r.readLine()
	r.current.number++
	torn = errors.Is(err, io.EOF)
	isDamaged := isDamage(err)
	if err != nil && !torn {
		if err := r.skip(r.current.number, err, isDamaged || errors.Is(err, errTooLong)); err != nil {
			return nil, false, err
		}
		text = nil
	}
	if torn || isDamaged { // nobody can decompress the rest of a damaged file
		r.close()
		r.files = r.files[1:]
	}
	return bytes.TrimSpace(text), torn, nil
}

// openNext opens the first of the remaining files.
func (r *reader) openNext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(r.files) == 0 {
		return io.EOF
	}
	file, err := r.files[0].Open(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.files = r.files[1:]
		return nil
	case isDamage(err) && r.damage.Add(r.files[0].Name(), 1, err):
		r.files = r.files[1:]
		return nil
	case err != nil:
		return fmt.Errorf("read the journal in %s: %w", r.files[0].Name(), err)
	}
	r.open = file
	r.buffer.Reset(file)
	r.current = line{file: r.files[0].Name()}
	r.damage.Begin(r.current.file)
	return nil
}

// skip records a damaged line of the current file. It returns an error if the line is not damaged, or nobody collects
// damage.
func (r *reader) skip(number int, err error, isDamaged bool) error {
	if isDamaged && r.damage.Add(r.current.file, number, err) {
		return nil
	}
	return fmt.Errorf("read the journal in %s: line %d: %w", r.current.file, number, err)
}

// isDamage reports whether an error is about the content of a compressed file, and not about the access to it.
func isDamage(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &corrupt)
}

// errTooLong means that a line is longer than an entry can be.
var errTooLong = fmt.Errorf("it is longer than %d bytes", lineBytesMax)

// readLine returns the text up to the next newline. At the end of the file it returns the rest and [io.EOF].
func (r *reader) readLine() ([]byte, error) {
	part, err := r.buffer.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return part, err
	}
	r.long = append(r.long[:0], part...)
	isTooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = r.buffer.ReadSlice('\n')
		if isTooLong = isTooLong || len(r.long) > lineBytesMax; !isTooLong {
			r.long = append(r.long, part...)
		}
	}
	if isTooLong && err == nil {
		err = errTooLong
	}
	return r.long, err
}

// The beginning of a line from [journal.Entry.MarshalJSON], and the text before its time.
var (
	idBegins   = []byte(`{"specversion":"1.0","id":"`)
	timeBegins = []byte(`","time":"`)
	lineEnds   = []byte(`}}`)
)

// identify sets the ledger, the sequence and the time of a line. It decodes lines only if another program wrote them.
func (r *reader) identify(l *line) error {
	if rest, ok := bytes.CutPrefix(l.text, idBegins); ok && bytes.HasSuffix(rest, lineEnds) {
		id, rest, _ := bytes.Cut(rest, []byte{'"'})
		_, rest, hasTime := bytes.Cut(rest, timeBegins)
		at, _, ends := bytes.Cut(rest, []byte{'"'})
		dot := bytes.LastIndexByte(id, '.')
		if dot > 0 && hasTime && ends {
			if sequence, err := strconv.ParseInt(string(id[dot+1:]), 10, 64); err == nil {
				l.ledger, l.sequence, l.time = r.name(id[:dot]), sequence, at
				return nil
			}
		}
	}
	var e journal.Entry
	if err := e.UnmarshalJSON(l.text); err != nil {
		return err
	}
	id := e.ID()
	l.ledger, l.sequence, l.time = r.name([]byte(id[:len(id)-len(strconv.FormatInt(e.Sequence, 10))-1])), e.Sequence, e.Time.UTC().AppendFormat(nil, timeFormat)
	return nil
}

// timeFormat is the format of encoding/json.
const timeFormat = "2006-01-02T15:04:05.999999999Z07:00"

func (r *reader) name(ledger []byte) string {
	name, ok := r.names[string(ledger)]
	if !ok {
		name = string(ledger)
		r.names[name] = name
	}
	return name
}
