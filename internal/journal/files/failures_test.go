package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/journal"
)

func TestBrokenLine(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, numbered("web", 1, 3, c.Now())...)
	text, err := os.ReadFile(s.current.Name())
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]string{
		"no JSON":       strings.Replace(string(text), `"consumerRef":{`, `"consumerRef":{{`, 1),
		"another event": strings.Replace(string(text), "com.miloapis.quota.journal.", "com.example.", 1),
		"a log line":    "starting\n" + string(text),
	} {
		if err := os.WriteFile(s.current.Name(), []byte(broken), fileMode); err != nil {
			t.Fatal(err)
		}
		var got error
		for _, err := range Dir(dir).Entries(t.Context(), journal.Query{}) {
			got = err
		}
		if got == nil || !strings.Contains(got.Error(), s.current.Name()+": line 1: ") {
			t.Errorf("%s: got %v, want an error that names file and line", name, got)
		}
	}
}

// TestDamagedLines proves that a reader with a Damage skips what nobody can read, yields the rest, and names the place.
// A repaired file is no longer damaged.
func TestDamagedLines(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, numbered("web", 1, 4, c.Now())...)
	path := s.current.Name()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	tests := map[string]struct {
		reason, text, example string
		want                  []int64
		damaged               int
	}{
		"Whole":   {"nothing is damaged", string(whole), "", upTo(1, 4), 0},
		"Zeros":   {"a disk lost a block", lines[0] + strings.Repeat("\x00", 200) + "\n" + lines[2] + lines[3], "line 2: ", []int64{1, 3, 4}, 1},
		"Cut":     {"a line lost its end, and decodes no more", lines[0] + lines[1][:len(lines[1])/2] + "\n" + lines[2] + lines[3], "line 2: ", []int64{1, 3, 4}, 1},
		"Changed": {"a line is an entry by its ends only", lines[0] + strings.Replace(lines[1], `"consumerRef":{`, `"consumerRef":{{`, 1) + lines[2] + lines[3], "line 2: ", []int64{1, 3, 4}, 1},
		"Two":     {"all of them count", "x\n" + lines[1] + "y\n" + lines[3], "line 1: ", []int64{2, 4}, 2},
	}
	damage := &journal.Damage{}
	for name, tt := range tests {
		if err := os.WriteFile(path, []byte(tt.text), fileMode); err != nil {
			t.Fatal(err)
		}
		got := read(t, journal.Tolerant{Source: Dir(dir), Damage: damage}, journal.Query{})
		if diff := cmp.Diff(tt.want, got["web"]); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tt.reason, diff)
		}
		if damage.Count() != tt.damaged || !strings.Contains(damage.Example(), tt.example) {
			t.Errorf("%s: %s: got %d damaged lines, such as %q", name, tt.reason, damage.Count(), damage.Example())
		}
	}
}

// TestDamagedArchive proves that a compressed file with an error hides its rest, and no other file.
func TestDamagedArchive(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, numbered("web", 1, 2000, c.Now())...)
	first := s.current.Name()
	s.finish()
	c.SetTime(c.Now().Add(time.Minute))
	appendAll(t, s, numbered("web", 2001, 2003, c.Now())...)
	waitFor(t, "the file is compressed", func() bool {
		_, err := os.Stat(first + ".gz")
		return err == nil
	})
	packed, err := os.ReadFile(first + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first+".gz", packed[:len(packed)/2], fileMode); err != nil {
		t.Fatal(err)
	}

	damage := &journal.Damage{}
	got := read(t, journal.Tolerant{Source: Dir(dir), Damage: damage}, journal.Query{})["web"]

	if damage.Count() == 0 || len(got) < 3 || len(got) >= 2003 || got[len(got)-1] != 2003 {
		t.Errorf("got %d entries and %d damaged lines, such as %q", len(got), damage.Count(), damage.Example())
	}
}

// TestProbe proves that a sink tells about a directory that it cannot write to before the first entry.
func TestProbe(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	if err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the proof left %v, %v", left, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the directory", err)
	}
}

func TestFailedWrite(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, numbered("web", 1, 2, c.Now())...)
	good := s.current
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	if err := s.replace(full); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), numbered("web", 3, 4, c.Now())); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Fatalf("got %v, want that the disk is full", err)
	}
	readOnly, err := os.Open(good.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.replace(readOnly); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), numbered("web", 3, 4, c.Now())); err == nil {
		t.Fatal("A write to a read-only file succeeded.")
	}
	appendAll(t, s, numbered("web", 3, 5, c.Now())...)
	if diff := cmp.Diff(map[string][]int64{"web": upTo(1, 5)}, read(t, Dir(dir), journal.Query{})); diff != "" {
		t.Errorf("The sink recovers from an error (-want +got):\n%s", diff)
	}
}

// replace makes the next write of the sink go to another file.
func (s *Sink) replace(file *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		if err := s.current.Close(); err != nil {
			return err
		}
	}
	s.current, s.wrote = file, s.now()
	return nil
}

func TestDeletedFile(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "journal"), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, entry("web", 1, c.Now()))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, entry("web", 2, c.Now()))
	if diff := cmp.Diff(map[string][]int64{"web": {2}}, read(t, Dir(dir), journal.Query{})); diff != "" {
		t.Errorf("A file that somebody deleted takes no more entries (-want +got):\n%s", diff)
	}
}

func TestCrashDuringCompression(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "r"), c)
	appendAll(t, s, numbered("web", 1, 3, c.Now())...)
	original := s.current.Name()
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	leftover := filepath.Join(dir, "."+strings.TrimSuffix(filepath.Base(original), plain)+temporarySuffix("r"))
	if err := os.WriteFile(leftover, []byte("half"), fileMode); err != nil {
		t.Fatal(err)
	}
	want := map[string][]int64{"web": upTo(1, 3)}
	if diff := cmp.Diff(want, read(t, Dir(dir), journal.Query{})); diff != "" {
		t.Errorf("A crash before the compressed file is complete (-want +got):\n%s", diff)
	}
	s = openSink(t, testOptions(dir, "r"), c)
	waitFor(t, "The next start compresses the file.", func() bool {
		return cmp.Equal(names(t, dir), []string{filepath.Base(original) + ".gz"})
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(original, text, fileMode); err != nil { // as if the crash came before its deletion
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read(t, Dir(dir), journal.Query{})); diff != "" {
		t.Errorf("A crash before the original is deleted (-want +got):\n%s", diff)
	}
	openSink(t, testOptions(dir, "r"), c)
	waitFor(t, "The next start deletes the original.", func() bool {
		return cmp.Equal(names(t, dir), []string{filepath.Base(original) + ".gz"})
	})
}

func TestCompressedWhileListed(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	old := filepath.Join(dir, name{c.Now(), "r"}.String()+plain)
	if err := os.WriteFile(old, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	items, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, old+".gz"); err != nil {
		t.Fatal(err)
	}
	found, err := look(dir, items)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || !found[0].isCompressed || found[0].path != old+".gz" || found[0].changed.IsZero() {
		t.Errorf("got %+v, want the compressed file once", found)
	}
	if err := os.Remove(old + ".gz"); err != nil {
		t.Fatal(err)
	}
	if found, err = look(dir, items); err != nil || len(found) > 0 {
		t.Errorf("got %+v and error %v, want that a deleted file is left out", found, err)
	}
}

func TestTemporaryFilesOfOthersStay(t *testing.T) {
	dir, c := t.TempDir(), startClock()
	s := openSink(t, testOptions(dir, "a"), c)
	of := name{c.Now(), "gone"}.String()
	other, own := "."+of+temporarySuffix("b-a"), "."+of+temporarySuffix("a")
	for _, file := range []string{other, own} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, fileMode); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.keeper.removeTemporary(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, other)); err != nil {
		t.Errorf("got %v, want that the file of replica b-a stays", err)
	}
	if _, err := os.Stat(filepath.Join(dir, own)); err == nil {
		t.Error("The file of this replica stays, want that it is deleted.")
	}
}
