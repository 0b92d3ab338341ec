// Package journalconfig opens the sinks and sources of the journal by configuration. The operator and the commands
// import it.
package journalconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/go-logr/logr"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/files"
	"github.com/bursar/bursar/internal/journal/lines"
	"github.com/bursar/bursar/internal/journal/s3"
)

// NewSink opens the configured sink, or returns nil if there is none. The replica is the name of this process among
// the users of the sink, such as the name of its Pod. The logger in ctx receives the failures with finished files.
func NewSink(ctx context.Context, c config.Journal, replica string) (journal.Sink, error) {
	switch c.Sink {
	case config.JournalFile:
		sink, err := files.NewSink(files.Options{
			Dir: c.File.Directory, Replica: replica, FileBytesMax: c.File.MaxFileBytes, Retention: c.File.Retention.Duration, BytesMax: c.File.MaxBytes,
			Log: logr.FromContextOrDiscard(ctx),
		})
		if err != nil {
			return nil, err
		}
		return sink, nil
	case config.JournalS3:
		sink, err := s3.NewSink(s3Options(c.S3), replica)
		if err != nil {
			return nil, err
		}
		return sink, nil
	case config.JournalStdout:
		return lines.NewWriter(os.Stdout), nil
	}
	return nil, nil
}

// NewSource opens the entries of the configured sink. It returns nil if they are not readable there.
func NewSource(c config.Journal) (journal.Source, error) {
	switch c.Sink {
	case config.JournalFile:
		return files.Dir(c.File.Directory), nil
	case config.JournalS3:
		return s3Source(c.S3)
	}
	return nil, nil
}

// Open opens the journal at a location: a directory, a file, - for standard input, or
// s3://bucket/prefix?endpoint=host:port&region=name&insecure=true.
func Open(location string) (journal.Source, error) {
	return open(location, os.Stdin)
}

func open(location string, input io.Reader) (journal.Source, error) {
	if location == "" {
		return nil, errors.New("no journal is given: name a directory, a file, - for standard input, or s3://bucket/prefix")
	}
	if location == "-" {
		return &files.Reader{Name: "standard input", From: input}, nil
	}
	if config.IsS3Location(location) {
		c, err := config.ParseS3Location(location)
		if err != nil {
			return nil, err
		}
		return s3Source(c)
	}
	info, err := os.Stat(location)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no journal at %s: name a directory, a file, - for standard input, or s3://bucket/prefix", location)
	case err != nil:
		return nil, fmt.Errorf("open the journal: %w", err)
	case !info.IsDir():
		return files.File(location), nil
	}
	switch hasFiles, err := files.HasFiles(location); {
	case err != nil:
		return nil, fmt.Errorf("open the journal: %w", err)
	case !hasFiles:
		return nil, fmt.Errorf("%s has no files of a journal: a standalone server has them in journal in its data directory, and a collected log is named as a file", location)
	}
	return files.Dir(location), nil
}

func s3Source(c *config.S3Journal) (journal.Source, error) {
	source, err := s3.NewSource(s3Options(c))
	if err != nil {
		return nil, err
	}
	return source, nil
}

func s3Options(c *config.S3Journal) s3.Options {
	return s3.Options{Endpoint: c.Endpoint, Insecure: c.Insecure, Region: c.Region, Bucket: c.Bucket, Prefix: c.Prefix}
}
