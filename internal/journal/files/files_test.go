package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
)

// clock is a clock under the control of tests.
type clock = clocktesting.FakePassiveClock

func startClock() *clock {
	return clocktesting.NewFakePassiveClock(time.Now().UTC().Truncate(time.Second))
}

func consumer(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Name: name}
}

// entry returns the entry of a consumer with the number.
func entry(of string, sequence int64, at time.Time) journal.Entry {
	return journal.Entry{
		Consumer: consumer(of), Sequence: sequence, Time: at, Kind: journal.Admitted, ResourceType: "pods", Change: 1, Used: sequence, Limit: 100,
		Dimensions: map[string]string{"zone": "a"}, Object: &journal.Object{APIGroup: "apps", Kind: "Pod", Namespace: of, Name: fmt.Sprintf("pod-%d", sequence)},
	}
}

// numbered returns entries of a consumer with consecutive numbers, a second apart.
func numbered(of string, first, last int64, from time.Time) []journal.Entry {
	var entries []journal.Entry
	for n := first; n <= last; n++ {
		entries = append(entries, entry(of, n, from.Add(time.Duration(n)*time.Second)))
	}
	return entries
}

func testOptions(dir, replica string) Options {
	return Options{Dir: dir, Replica: replica, FileBytesMax: 64 << 20, Retention: 90 * 24 * time.Hour, BytesMax: 1 << 30}
}

func openSink(t *testing.T, o Options, c *clock) *Sink {
	t.Helper()
	s, err := newSink(o, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s
}

func appendAll(t *testing.T, s journal.Sink, entries ...journal.Entry) {
	t.Helper()
	if err := s.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// read returns the ids of the selected entries, by consumer.
func read(t *testing.T, from journal.Source, query journal.Query) map[string][]int64 {
	t.Helper()
	got := map[string][]int64{}
	for e, err := range from.Entries(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Consumer.Name] = append(got[e.Consumer.Name], e.Sequence)
	}
	return got
}

func upTo(first, last int64) []int64 {
	var all []int64
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	items, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, item := range items {
		all = append(all, item.Name())
	}
	return all
}

// waitFor waits until the keeper has done its work.
func waitFor(t *testing.T, reason string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", reason, err)
	}
}

func count(all []string, suffix string) (n int) {
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			n++
		}
	}
	return n
}

func TestAppendAndRead(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "journal"), startClock()
	s := openSink(t, testOptions(dir, "bursar-0"), c)
	want := numbered("web", 1, 5, c.Now())
	appendAll(t, s, want...)
	var got []journal.Entry
	for e, err := range Dir(dir).Entries(t.Context(), journal.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("What is read differs from what was appended (-want +got):\n%s", diff)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Join(dir, names(t, dir)[0]): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v (%v), want %v: the journal names people", path, info.Mode(), err, mode)
		}
	}
}

// content returns the lines of a file, compressed or not.
func content(t *testing.T, path string) string {
	t.Helper()
	from, err := dirFile{path: path}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCrashTearsTheLastLine(t *testing.T) {
	c := startClock()
	opening := journal.Entry{Consumer: consumer("web"), Sequence: 3, Time: c.Now(), Kind: journal.Opened, Opening: &journal.Opening{
		Limits:   []journal.Limit{{ResourceType: "pods", Grant: "a/b", Amount: 3}},
		Balances: []journal.Balance{{ResourceType: "pods", Dimensions: map[string]string{"zone": "a"}, Amount: 2}, {ResourceType: "cpu", Dimensions: map[string]string{"zone": "a"}, Amount: 2}},
	}}
	dir := t.TempDir()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, numbered("web", 1, 2, c.Now())...)
	whole := s.size
	appendAll(t, s, opening)
	text, err := os.ReadFile(s.current.Name())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Base(s.current.Name())
	for size := whole; size <= int64(len(text)); size++ {
		for _, filling := range []string{"", "\x00\x00\x00"} {
			if filling != "" && size%5 != 0 {
				continue // each start syncs, which takes time
			}
			crashed := t.TempDir()
			if err := os.WriteFile(filepath.Join(crashed, file), append(text[:size:size], filling...), fileMode); err != nil {
				t.Fatal(err)
			}
			want := upTo(1, 2)
			if size >= int64(len(text))-1 && filling == "" || size == int64(len(text)) {
				want = upTo(1, 3) // only the newline is missing, or nothing
			}
			if diff := cmp.Diff(map[string][]int64{"web": want}, read(t, Dir(crashed), journal.Query{})); diff != "" {
				t.Fatalf("A source must ignore a torn last line of %d bytes and %q (-want +got):\n%s", size-whole, filling, diff)
			}
			again := openSink(t, testOptions(crashed, "r"), c)
			if left := content(t, filepath.Join(crashed, file)); left != string(text[:whole]) && left != string(text) {
				t.Fatalf("A start leaves whole lines: got %q after a torn line of %d bytes and %q", left[whole:], size-whole, filling)
			}
			if size < int64(len(text)) {
				appendAll(t, again, opening)
			}
			appendAll(t, again, entry("web", 4, c.Now()))
			if diff := cmp.Diff(map[string][]int64{"web": upTo(1, 4)}, read(t, Dir(crashed), journal.Query{})); diff != "" {
				t.Fatalf("A start must cut off a torn last line of %d bytes and %q (-want +got):\n%s", size-whole, filling, diff)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	o := testOptions(dir, "r")
	o.FileBytesMax = 2000
	s := openSink(t, o, c)
	for _, e := range numbered("web", 1, 50, c.Now()) {
		appendAll(t, s, e)
	}
	waitFor(t, "All files but the newest are compressed.", func() bool {
		all := names(t, dir)
		return count(all, compressed) > 5 && count(all, plain) == 1 && len(all) == count(all, compressed)+1
	})
	if diff := cmp.Diff(map[string][]int64{"web": upTo(1, 50)}, read(t, Dir(dir), journal.Query{})); diff != "" {
		t.Errorf("Rotation loses nothing (-want +got):\n%s", diff)
	}
	for _, file := range names(t, dir) {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode() != fileMode {
			t.Errorf("%s has mode %v (%v), want %v", file, info.Mode(), err, os.FileMode(fileMode))
		}
	}
}

func TestIdleFileIsFinished(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, entry("web", 1, c.Now()))
	c.SetTime(c.Now().Add(idleMax + time.Second))
	appendAll(t, s, entry("web", 2, c.Now()))
	waitFor(t, "Other replicas may delete a file that is not written for a day, so it must be finished long before.", func() bool {
		return count(names(t, dir), compressed) == 1 && count(names(t, dir), plain) == 1
	})
}

func TestClockSetBack(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, entry("web", 1, c.Now()))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.SetTime(c.Now().Add(-time.Hour))
	appendAll(t, openSink(t, testOptions(dir, "r"), c), entry("web", 2, c.Now()))
	if diff := cmp.Diff(map[string][]int64{"web": upTo(1, 2)}, read(t, Dir(dir), journal.Query{})); diff != "" {
		t.Errorf("The order of names is that of the entries, whatever the clock says (-want +got):\n%s", diff)
	}
}

func TestRetention(t *testing.T) {
	day := 24 * time.Hour
	tests := map[string]struct {
		reason   string
		bytesMax int64
		ages     map[string]time.Duration // of files by replica
		gone     []string
		// early is how many of them went before the end of the retention.
		early float64
	}{
		"Age":        {"What is older than the retention is deleted, also of replicas that are gone.", 1 << 30, map[string]time.Duration{"r": 91 * day, "gone": 91 * day, "young": 89 * day}, []string{"r", "gone"}, 0},
		"Size":       {"The oldest finished files are deleted until the rest is small enough.", 700, map[string]time.Duration{"r": 3 * day, "b": 2 * day, "c": 25 * time.Hour}, []string{"r"}, 1},
		"Unfinished": {"Another replica's file that is young may still be written.", 1, map[string]time.Duration{"r": 3 * day, "running": time.Hour}, []string{"r"}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir, c := t.TempDir(), startClock()
			for replica, age := range tc.ages {
				old := clocktesting.NewFakePassiveClock(c.Now().Add(-age))
				s := openSink(t, testOptions(dir, replica), old)
				appendAll(t, s, entry(replica, 1, old.Now()))
				path := s.current.Name()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, old.Now(), old.Now()); err != nil {
					t.Fatal(err)
				}
			}
			o := testOptions(dir, "r")
			o.BytesMax = tc.bytesMax
			s := openSink(t, o, c)
			waitFor(t, tc.reason, func() bool {
				return len(s.keeper.wake) == 0 && count(names(t, dir), temporary) == 0 && len(read(t, Dir(dir), journal.Query{})) == len(tc.ages)-len(tc.gone)
			})
			left := read(t, Dir(dir), journal.Query{})
			for _, replica := range tc.gone {
				if left[replica] != nil {
					t.Errorf("%s The file of %s is still there.", tc.reason, replica)
				}
			}
			if early := testutil.ToFloat64(s.early); early != tc.early {
				t.Errorf("%s %g files went early, want %g", tc.reason, early, tc.early)
			}
		})
	}
}

func TestTwoReplicasInOneDirectory(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	o := testOptions(dir, "a")
	o.FileBytesMax = 3000
	a := openSink(t, o, c)
	o.Replica = "b"
	b := openSink(t, o, c)
	// The replicas take turns. Each begins with a repetition of the entries possibly not reported by the other one.
	for turn := int64(0); turn < 20; turn++ {
		s := []*Sink{a, b}[turn%2]
		appendAll(t, s, numbered("web", max(1, turn*5-2), turn*5+5, c.Now())...)
		appendAll(t, s, numbered([]string{"only-a", "only-b"}[turn%2], turn*5+1, turn*5+3, c.Now())...)
		c.SetTime(c.Now().Add(time.Second))
	}
	got := read(t, Dir(dir), journal.Query{})
	if diff := cmp.Diff(upTo(1, 100), got["web"]); diff != "" {
		t.Errorf("Entries of a consumer come in order and once, whoever wrote them (-want +got):\n%s", diff)
	}
	if len(got["only-a"]) != 30 || len(got["only-b"]) != 30 {
		t.Errorf("Gaps in the numbers are no reason to lose entries: got %d and %d, want 30 and 30", len(got["only-a"]), len(got["only-b"]))
	}
	if diff := cmp.Diff(map[string][]int64{"web": upTo(1, 100)}, read(t, Dir(dir), journal.Query{Consumer: new(consumer("web"))})); diff != "" {
		t.Errorf("The query selects one consumer (-want +got):\n%s", diff)
	}
	t.Run("in one file", func(t *testing.T) {
		var all bytes.Buffer
		for _, replica := range []string{"b", "a"} { // as a person would put them together
			for _, file := range names(t, dir) {
				if n, _, ok := parseName(file); ok && n.replica == replica {
					from, err := dirFile{path: filepath.Join(dir, file), isCompressed: strings.HasSuffix(file, compressed)}.Open(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if _, err := all.ReadFrom(from); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		path := filepath.Join(t.TempDir(), "all")
		if err := os.WriteFile(path, all.Bytes(), fileMode); err != nil {
			t.Fatal(err)
		}
		for name, source := range map[string]journal.Source{"file": File(path), "input": &Reader{Name: "standard input", From: &all}} {
			if diff := cmp.Diff(got, read(t, source, journal.Query{})); diff != "" {
				t.Errorf("The %s has the same entries (-directory +%s):\n%s", name, name, diff)
			}
		}
	})
}

func TestSinceSkipsFiles(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	// The first file has an entry of long ago, held back by an outage.
	appendAll(t, s, entry("web", 1, c.Now().Add(-48*time.Hour)), entry("web", 2, c.Now()))
	first := s.current.Name()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	query := journal.Query{Since: c.Now().Add(-72 * time.Hour), Until: c.Now()}
	if diff := cmp.Diff(map[string][]int64{"web": {1}}, read(t, Dir(dir), query)); diff != "" {
		t.Errorf("Entries may be older than their file (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(first, []byte("{broken}\n"), fileMode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(first, c.Now(), c.Now()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, Dir(dir), journal.Query{Since: c.Now().Add(time.Hour)}); len(got) != 0 {
		t.Errorf("got %v, want nothing from a file that ended before", got)
	}
}
