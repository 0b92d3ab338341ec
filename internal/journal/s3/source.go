package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/lines"
)

// skewMax is how much the clocks of the writers may differ when a query skips objects by time.
const skewMax = 5 * time.Minute

// aheadMax is the number of a writer's objects to fetch before their use.
const aheadMax = 8

// Source is a [journal.Source] of objects.
type Source struct {
	o      Options
	client *minio.Client
}

var _ journal.Source = (*Source)(nil)

// NewSource returns a source. It does not call the store.
func NewSource(o Options) (*Source, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	return &Source{o: o, client: client}, nil
}

// Entries implements [journal.Source].
func (s *Source) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		streams, err := s.streams(ctx, query.Since)
		if err != nil {
			yield(journal.Entry{}, fmt.Errorf("list the journal in the bucket %s: %w", s.o.Bucket, err))
			return
		}
		lines.Merge(ctx, streams, query, false)(yield)
	}
}

// streams returns the objects with entries since a time, by writer. An object from before the time has none. A later
// object may have much older entries, if the sink stood still.
func (s *Source) streams(ctx context.Context, since time.Time) ([]lines.Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := minio.ListObjectsOptions{Prefix: s.o.inPrefix(""), Recursive: true}
	if !since.IsZero() {
		options.StartAfter = s.o.keyAt(since.Add(-skewMax))
	}
	of := map[string]*stream{}
	var order []*stream
	for found := range s.client.ListObjects(ctx, s.o.Bucket, options) {
		if found.Err != nil {
			return nil, found.Err
		}
		writer, ok := writerOf(found.Key)
		if !ok {
			continue
		}
		its := of[writer]
		if its == nil {
			its = &stream{source: s, fetched: map[int]*fetch{}}
			of[writer] = its
			order = append(order, its)
		}
		its.keys = append(its.keys, found.Key)
	}
	streams := make([]lines.Stream, 0, len(order))
	for _, its := range order {
		objects := make(lines.Stream, 0, len(its.keys))
		for i := range its.keys {
			objects = append(objects, object{its, i})
		}
		streams = append(streams, objects)
	}
	return streams, nil
}

// stream is the objects of one writer.
type stream struct {
	source *Source
	keys   []string

	mu      sync.Mutex
	fetched map[int]*fetch
}

// fetch is an object on its way.
type fetch struct {
	done    chan struct{}
	content []byte
	err     error
}

// get returns an object, and begins to fetch those after it.
func (s *stream) get(ctx context.Context, i int) ([]byte, error) {
	s.mu.Lock()
	for n := i; n < min(i+aheadMax, len(s.keys)); n++ {
		if s.fetched[n] == nil {
			f := &fetch{done: make(chan struct{})}
			s.fetched[n] = f
			go func() {
				defer close(f.done)
				f.content, f.err = s.source.get(ctx, s.keys[n])
			}()
		}
	}
	f := s.fetched[i]
	delete(s.fetched, i)
	s.mu.Unlock()
	<-f.done
	return f.content, f.err
}

func (s *Source) get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	from, err := s.client.GetObject(ctx, s.o.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // it was only read
	content, err := io.ReadAll(from)
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, fs.ErrNotExist // its retention ended
	}
	return content, err
}

// object is one object of a stream.
type object struct {
	*stream
	index int
}

// Name implements [lines.File].
func (o object) Name() string { return "s3://" + o.source.o.Bucket + "/" + o.keys[o.index] }

// Finished implements [lines.File].
func (object) Finished() bool { return true }

// Open implements [lines.File].
func (o object) Open(ctx context.Context) (io.ReadCloser, error) {
	content, err := o.get(ctx, o.index)
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(bytes.NewReader(content))
}
