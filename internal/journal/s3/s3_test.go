package s3

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
)

// store is an S3 store with a switch.
type store struct {
	address string
	down    atomic.Bool
}

func newStore(t *testing.T) *store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
	backend := s3mem.New()
	if err := backend.CreateBucket("quota"); err != nil {
		t.Fatal(err)
	}
	s, handler := &store{}, gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.address = server.Listener.Addr().String()
	return s
}

func (s *store) options() Options {
	return Options{Endpoint: s.address, Insecure: true, Region: "us-east-1", Bucket: "quota", Prefix: "clusters/a"}
}

func entries(name string, first, last int64, at time.Time) []journal.Entry {
	var all []journal.Entry
	for n := first; n <= last; n++ {
		all = append(all, journal.Entry{
			Consumer: quotav1alpha1.ConsumerRef{Kind: "Project", Name: name}, Sequence: n, Time: at, Kind: journal.Admitted, ResourceType: "pods", Change: 1, Used: n, Limit: 100,
		})
	}
	return all
}

func newSink(t *testing.T, o Options, replica string) *Sink {
	t.Helper()
	s, err := NewSink(o, replica)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, o Options, query journal.Query) (map[string][]int64, error) {
	t.Helper()
	source, err := NewSource(o)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int64{}
	for e, err := range source.Entries(t.Context(), query) {
		if err != nil {
			return got, err
		}
		got[e.Consumer.Name] = append(got[e.Consumer.Name], e.Sequence)
	}
	return got, nil
}

func upTo(last int64) []int64 {
	var all []int64
	for n := int64(1); n <= last; n++ {
		all = append(all, n)
	}
	return all
}

func TestTwoReplicas(t *testing.T) {
	s, now := newStore(t), time.Now().UTC()
	// Two replicas take turns, and a third has the name of the first: it is a new run of it.
	sinks := []*Sink{newSink(t, s.options(), "bursar-a"), newSink(t, s.options(), "bursar-b"), newSink(t, s.options(), "bursar-a")}
	for turn := range int64(30) {
		if err := sinks[turn%3].Append(t.Context(), entries("web", max(1, turn*4-2), turn*4+4, now)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := read(t, s.options(), journal.Query{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]int64{"web": upTo(120)}, got); diff != "" {
		t.Errorf("Entries of a consumer come in order and once, whoever wrote them (-want +got):\n%s", diff)
	}
}

func TestSince(t *testing.T) {
	s, now := newStore(t), time.Now().UTC()
	sink := newSink(t, s.options(), "bursar-a")
	if err := sink.Append(t.Context(), append(entries("web", 1, 1, now.Add(-time.Hour)), entries("web", 2, 2, now)...)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		query  journal.Query
		want   map[string][]int64
	}{
		"Since":  {"An object may have entries of both sides.", journal.Query{Since: now.Add(-time.Minute)}, map[string][]int64{"web": {2}}},
		"Until":  {"An object may have older entries.", journal.Query{Until: now.Add(-time.Minute)}, map[string][]int64{"web": {1}}},
		"Future": {"Objects from before are not read.", journal.Query{Since: now.Add(time.Hour)}, map[string][]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, s.options(), tc.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	source, err := NewSource(s.options())
	if err != nil {
		t.Fatal(err)
	}
	if streams, err := source.streams(t.Context(), now.Add(time.Hour)); err != nil || len(streams) != 0 {
		t.Errorf("got %d streams and %v, want that old objects are not even listed", len(streams), err)
	}
}

func TestStoreDown(t *testing.T) {
	s, now := newStore(t), time.Now().UTC()
	sink := newSink(t, s.options(), "bursar-a")
	if err := sink.Append(t.Context(), entries("web", 1, 2, now)); err != nil {
		t.Fatal(err)
	}
	s.down.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := sink.Append(ctx, entries("web", 3, 4, now)); err == nil || !strings.Contains(err.Error(), "write the journal to the bucket quota at "+s.address) {
		t.Fatalf("got %v, want an error that names the bucket", err)
	}
	if _, err := read(t, s.options(), journal.Query{}); err == nil || !strings.Contains(err.Error(), "list the journal in the bucket quota") {
		t.Fatalf("got %v, want an error that names the bucket", err)
	}
	s.down.Store(false)
	if err := sink.Append(t.Context(), entries("web", 3, 4, now)); err != nil {
		t.Fatalf("The sink must recover: %v", err)
	}
	got, err := read(t, s.options(), journal.Query{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]int64{"web": upTo(4)}, got); diff != "" {
		t.Errorf("An outage loses nothing (-want +got):\n%s", diff)
	}
}

func TestNoBucket(t *testing.T) {
	s := newStore(t)
	o := s.options()
	o.Bucket = "other"
	if err := newSink(t, o, "bursar-a").Append(t.Context(), entries("web", 1, 1, time.Now())); err == nil || !strings.Contains(err.Error(), "to the bucket other") {
		t.Errorf("got %v, want an error that names the bucket", err)
	}
}

// TestProbe proves that a sink tells about a dead store before the first entry, in words that stay the same, and that
// the object it writes is no entry for readers.
func TestProbe(t *testing.T) {
	store := newStore(t)
	sink := newSink(t, store.options(), "a")
	if err := sink.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	source, err := NewSource(store.options())
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range source.Entries(t.Context(), journal.Query{}) {
		t.Errorf("a reader got %+v, %v", e, err)
	}
	store.down.Store(true)
	failed := sink.Probe(t.Context())
	if failed == nil || !strings.Contains(failed.Error(), "the bucket quota at "+store.address) {
		t.Fatalf("got %v, want an error that names the bucket", failed)
	}
	if err := sink.Append(t.Context(), entries("web", 1, 1, time.Now())); err == nil || strings.Contains(err.Error(), ending) {
		t.Errorf("got %v, want an error without the key", err)
	}
}
