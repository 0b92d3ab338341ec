package lines

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
)

func entry(name string, sequence int64, at time.Time) journal.Entry {
	return journal.Entry{Consumer: quotav1alpha1.ConsumerRef{Kind: "Project", Name: name}, Sequence: sequence, Time: at, Kind: journal.Admitted, ResourceType: "pods", Change: 1}
}

// output records writes. It takes limit bytes and fails then.
type output struct {
	writes []string
	limit  int
}

func (o *output) Write(p []byte) (int, error) {
	if n := o.limit; n > 0 {
		o.limit = 0
		o.writes = append(o.writes, string(p[:n]))
		return n, io.ErrClosedPipe
	}
	o.writes = append(o.writes, string(p))
	return len(p), nil
}

func TestWriter(t *testing.T) {
	out, now := &output{}, time.Now().UTC()
	sink := NewWriter(out)
	all := []journal.Entry{entry("web", 1, now), entry("web", 2, now)}
	if err := sink.Append(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if len(out.writes) != 2 || strings.Count(strings.Join(out.writes, ""), "\n") != 2 {
		t.Errorf("got the writes %q, want one for each line", out.writes)
	}
	out.limit = 10
	if err := sink.Append(t.Context(), all[:1]); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("got %v, want the error of the write", err)
	}
	if err := sink.Append(t.Context(), all[:1]); err != nil {
		t.Fatal(err)
	}
	if last := out.writes[len(out.writes)-1]; last != "\n"+out.writes[0] {
		t.Errorf("got %q after a torn line, want a line of its own", last)
	}
}

// memory is a file in memory. It fails to open after its deletion.
type memory struct {
	text string
	// opens is the number of possible opens.
	opens int
}

func (m *memory) Name() string   { return "memory" }
func (m *memory) Finished() bool { return true }
func (m *memory) Open(context.Context) (io.ReadCloser, error) {
	if m.opens == 0 {
		return nil, fs.ErrNotExist
	}
	m.opens--
	return io.NopCloser(bytes.NewBufferString(m.text)), nil
}

func fileOf(t *testing.T, opens int, at time.Time, numbers ...int64) *memory {
	t.Helper()
	var text []byte
	for _, n := range numbers {
		var err error
		if text, err = Append(text, []journal.Entry{entry("web", n, at)}); err != nil {
			t.Fatal(err)
		}
	}
	return &memory{string(text), opens}
}

func TestMerge(t *testing.T) {
	now := time.Date(2026, 11, 26, 14, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	tests := map[string]struct {
		reason  string
		streams []Stream
		want    []int64
		wantErr string
	}{
		"Late":      {"A line waits for its predecessor, which another stream has under a later time.", []Stream{{fileOf(t, 2, now, 3, 4)}, {fileOf(t, 2, later, 1, 2)}}, []int64{1, 2, 3, 4}, ""},
		"Gap":       {"A number that nobody has is not waited for.", []Stream{{fileOf(t, 2, now, 5, 9)}, {fileOf(t, 2, later, 7, 7, 9)}}, []int64{5, 7, 9}, ""},
		"Deleted":   {"A file that is deleted meanwhile leaves the rest in order.", []Stream{{fileOf(t, 2, now, 1, 3, 4)}, {fileOf(t, 1, later, 2)}}, []int64{1, 3, 4}, ""},
		"Repeated":  {"One stream repeats entries after an error.", []Stream{{fileOf(t, 1, now, 1, 2, 3), fileOf(t, 1, now, 2, 3, 4)}}, []int64{1, 2, 3, 4}, ""},
		"Unordered": {"An entry of a single stream that comes late is not lost in silence.", []Stream{{fileOf(t, 1, now, 1, 3, 2)}}, nil, "comes after entry 3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []int64
			var gotErr error
			for e, err := range Merge(t.Context(), tc.streams, journal.Query{}, false) {
				if gotErr = err; err == nil {
					got = append(got, e.Sequence)
				}
			}
			if tc.wantErr != "" || gotErr != nil {
				if gotErr == nil || tc.wantErr == "" || !strings.Contains(gotErr.Error(), tc.wantErr) {
					t.Fatalf("%s Got %v, want an error with %q", tc.reason, gotErr, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMergeStops(t *testing.T) {
	now := time.Now().UTC()
	var numbers []int64
	for n := int64(1); n <= 20_000; n++ {
		numbers = append(numbers, n)
	}
	n := 0
	for range Merge(t.Context(), []Stream{{fileOf(t, 1, now, numbers...)}}, journal.Query{}, false) {
		if n++; n == 10 {
			break
		}
	}
	if n != 10 {
		t.Errorf("got %d entries, want 10", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range Merge(ctx, []Stream{{fileOf(t, 1, now, numbers...)}}, journal.Query{}, false) {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want that the context ended", err)
		}
	}
}
