package s3

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/lines"
)

// Sink is a [journal.Sink] of objects.
type Sink struct {
	o       Options
	client  *minio.Client
	replica string
	// run is a random name of this sink.
	run    string
	number int
	last   time.Time
	buffer []byte
}

var _ journal.Sink = (*Sink)(nil)

var replicaPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)

// NewSink returns a sink. It does not call the store, because the store may come up later.
func NewSink(o Options, replica string) (*Sink, error) {
	if !replicaPattern.MatchString(replica) {
		return nil, fmt.Errorf("%q cannot be the name of a replica in keys: use up to 128 letters, digits, '-', '_' and '.'", replica)
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	run := make([]byte, 4)
	if _, err := rand.Read(run); err != nil {
		return nil, fmt.Errorf("name the journal's objects: %w", err)
	}
	return &Sink{o: o, client: client, replica: replica, run: hex.EncodeToString(run)}, nil
}

// Append implements [journal.Sink]. It writes one object.
func (s *Sink) Append(ctx context.Context, entries []journal.Entry) error {
	if len(entries) == 0 {
		return ctx.Err()
	}
	text, err := lines.Append(s.buffer[:0], entries)
	if err != nil {
		return err
	}
	s.buffer = text
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	_, err = packer.Write(text)
	if err = errors.Join(err, packer.Close()); err != nil {
		return fmt.Errorf("compress entries of the journal: %w", err)
	}
	now := time.Now().UTC()
	if !now.After(s.last) { // keys are in the order of the entries
		now = s.last.Add(1)
	}
	s.last = now
	s.number++
	key := fmt.Sprintf("%s-%s-%s-%d%s", s.o.keyAt(now), s.replica, s.run, s.number, ending)
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	_, err = s.client.PutObject(ctx, s.o.Bucket, key, &packed, int64(packed.Len()), minio.PutObjectOptions{ContentType: "application/gzip", DisableMultipart: true})
	if err != nil {
		return s.writeError(err)
	}
	return nil
}

// probeName ends the key of the object that Probe writes. No reader takes it for one of the journal, and each start of
// a replica writes it again.
const (
	probeName = "probe"
	probeText = "Bursar writes this object when it starts.\n"
)

// Probe implements [journal.Sink]. It writes an object without entries, always the same.
func (s *Sink) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	_, err := s.client.PutObject(ctx, s.o.Bucket, s.o.inPrefix(probeName), strings.NewReader(probeText), int64(len(probeText)), minio.PutObjectOptions{DisableMultipart: true})
	if err != nil {
		return s.writeError(err)
	}
	return nil
}

// writeError names the bucket of a failed write, and not the key: each attempt has a new one, and one fault would have
// as many texts as attempts.
func (s *Sink) writeError(err error) error {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("write the journal to the bucket %s at %s: %w", s.o.Bucket, s.client.EndpointURL().Host, err)
}

// Close implements [journal.Sink].
func (*Sink) Close() error { return nil }
