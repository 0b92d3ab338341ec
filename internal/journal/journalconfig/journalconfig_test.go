package journalconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
)

func TestFileAndLocations(t *testing.T) {
	dir := t.TempDir()
	q := config.Quota{Journal: config.Journal{Sink: config.JournalFile, File: &config.FileJournal{Directory: dir}}}
	q.Default()
	sink, err := NewSink(t.Context(), q.Journal, "bursar-0")
	if err != nil {
		t.Fatal(err)
	}
	want := journal.Entry{
		Consumer: quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web"}, Sequence: 1, Time: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), Kind: journal.LimitChanged, ResourceType: "pods", Change: 1, Limit: 1,
	}
	if err := sink.Append(t.Context(), []journal.Entry{want}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("got the files %v and %v, want one", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]journal.Source{}
	if sources["configuration"], err = NewSource(q.Journal); err != nil {
		t.Fatal(err)
	}
	for name, location := range map[string]string{"directory": dir, "file": found[0], "input": "-"} {
		if sources[name], err = open(location, strings.NewReader(string(text))); err != nil {
			t.Fatal(err)
		}
	}
	for name, source := range sources {
		var got []journal.Entry
		for e, err := range source.Entries(t.Context(), journal.Query{}) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, e)
		}
		if diff := cmp.Diff([]journal.Entry{want}, got); diff != "" {
			t.Errorf("The %s differs (-want +got):\n%s", name, diff)
		}
	}
}

func TestWithoutSource(t *testing.T) {
	for _, sink := range []config.JournalSink{config.JournalNone, config.JournalStdout} {
		if source, err := NewSource(config.Journal{Sink: sink}); source != nil || err != nil {
			t.Errorf("%s: got %v and %v, want nothing to read", sink, source, err)
		}
	}
	if sink, err := NewSink(t.Context(), config.Journal{Sink: config.JournalNone}, "a"); sink != nil || err != nil {
		t.Errorf("got %v and %v, want no sink", sink, err)
	}
}

func TestWrongLocation(t *testing.T) {
	for location, want := range map[string]string{
		"":                           "no journal is given",
		"/nonexistent":               "there is no journal at /nonexistent",
		"s3://":                      "bucket: Required value",
		"s3://quota?endpoint=http:/": "must be of the form host or host:port",
	} {
		if _, err := Open(location); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", location, err, want)
		}
	}
}
