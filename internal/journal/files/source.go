package files

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/lines"
)

// skewMax is how much the clocks of the replicas and of the volume may differ when a query skips files by time.
const skewMax = 5 * time.Minute

// Dir is a [journal.Source] that reads the directory of a [Sink], even during writes.
type Dir string

var _ journal.Source = Dir("")

// Entries implements [journal.Source].
func (d Dir) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		all, err := list(string(d))
		if err != nil {
			yield(journal.Entry{}, fmt.Errorf("read the journal: %w", err))
			return
		}
		lines.Merge(ctx, streams(all, query.Since), query, false)(yield)
	}
}

// streams returns the files with entries since a time, by replica. An entry may be much older than its file, if the
// sink stood still, so the beginning of a file says nothing about it.
func streams(all []stored, since time.Time) []lines.Stream {
	of := map[string]int{}
	var found []lines.Stream
	for _, file := range all {
		if !since.IsZero() && file.changed.Add(skewMax).Before(since) {
			continue
		}
		i, known := of[file.replica]
		if !known {
			i = len(found)
			of[file.replica] = i
			found = append(found, nil)
		}
		found[i] = append(found[i], dirFile(file))
	}
	return found
}

// dirFile is a file in a directory.
type dirFile stored

// Name implements [lines.File].
func (f dirFile) Name() string { return f.path }

// Finished implements [lines.File].
func (f dirFile) Finished() bool { return f.isCompressed }

// Open implements [lines.File]. It also finds a file compressed in the meantime: the keeper deletes the original only
// after the compressed file has its name, so Open first looks for the original.
func (f dirFile) Open(context.Context) (io.ReadCloser, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) && !f.isCompressed {
		file, err = os.Open(f.path + ".gz")
	}
	if err != nil {
		return nil, err
	}
	return unpack(file)
}

// unpacked reads a file, compressed or not.
type unpacked struct {
	io.Reader
	file io.Closer
}

// Close implements [io.Closer].
func (u unpacked) Close() error { return u.file.Close() }

// unpack decompresses a compressed file.
func unpack(file io.ReadCloser) (io.ReadCloser, error) {
	const bufferBytes = 64 << 10
	from := bufio.NewReaderSize(file, bufferBytes)
	magic, err := from.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		_ = file.Close() // the first error counts
		return nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return unpacked{from, file}, nil
	}
	unzipped, err := gzip.NewReader(from)
	if err != nil {
		_ = file.Close() // the first error counts
		return nil, err
	}
	return unpacked{unzipped, file}, nil
}

// File is a [journal.Source] of one file, compressed or not. It may have the entries of several replicas, such as an
// archive of a directory, or a log.
type File string

var _ journal.Source = File("")

// Entries implements [journal.Source].
func (f File) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return lines.Merge(ctx, []lines.Stream{{singleFile(f)}}, query, true)
}

// singleFile is a required file.
type singleFile string

// Name implements [lines.File].
func (f singleFile) Name() string { return string(f) }

// Finished implements [lines.File].
func (f singleFile) Finished() bool { return false }

// Open implements [lines.File].
func (f singleFile) Open(context.Context) (io.ReadCloser, error) {
	file, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", string(f)) // lines would take it for deleted
	}
	if err != nil {
		return nil, err
	}
	return unpack(file)
}

// Reader is a [journal.Source] that reads a stream once, such as standard input. It keeps a copy in a temporary file
// during the read, because entries may be out of order.
type Reader struct {
	// Name names the stream in errors.
	Name string
	From io.Reader
}

var _ journal.Source = (*Reader)(nil)

// Entries implements [journal.Source].
func (r *Reader) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		copied, err := os.CreateTemp("", "bursar-journal-*"+plain)
		if err == nil {
			defer func() { _, _ = copied.Close(), os.Remove(copied.Name()) }() // nobody else needs it
			_, err = io.Copy(copied, contextReader{ctx, r.From})
		}
		if err != nil {
			yield(journal.Entry{}, fmt.Errorf("read the journal in %s: %w", r.Name, err))
			return
		}
		lines.Merge(ctx, []lines.Stream{{copiedFile{singleFile(copied.Name()), r.Name}}}, query, true)(yield)
	}
}

// copiedFile is a temporary file under the name of its origin.
type copiedFile struct {
	singleFile
	origin string
}

// Name implements [lines.File].
func (f copiedFile) Name() string { return f.origin }
