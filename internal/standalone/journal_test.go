package standalone

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone/flags"
)

func TestJournalFlags(t *testing.T) {
	file := func(change func(*config.FileJournal)) config.Journal {
		j := &config.FileJournal{
			Directory: "/data/journal", Retention: config.Duration{Duration: config.DefaultJournalRetention}, MaxBytes: config.DefaultJournalMaxBytes, MaxFileBytes: config.DefaultJournalMaxFileBytes,
		}
		change(j)
		return config.Journal{Sink: config.JournalFile, File: j}
	}
	here, err := filepath.Abs("here")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args    []string
		want    config.Journal
		wantErr string
	}{
		"default":   {nil, file(func(*config.FileJournal) {}), ""},
		"none":      {[]string{"--journal=none"}, config.Journal{Sink: config.JournalNone}, ""},
		"directory": {[]string{"--journal=here"}, file(func(j *config.FileJournal) { j.Directory = here }), ""},
		"retention": {[]string{"--journal-retention=48h"}, file(func(j *config.FileJournal) { j.Retention.Duration = 48 * time.Hour }), ""},
		"bucket":    {[]string{"--journal=s3://quota/a"}, config.Journal{Sink: config.JournalS3, S3: &config.S3Journal{Bucket: "quota", Prefix: "a"}}, ""},
		"too short": {[]string{"--journal-retention=1h"}, config.Journal{}, "--journal-retention: 1h0m0s must be at least 24h"},
		"too small": {[]string{"--journal-max-bytes=1"}, config.Journal{}, "--journal-max-bytes: 1 must be at least the size of one file, 67108864"},
		"no bucket": {[]string{"--journal=s3://"}, config.Journal{}, "bucket: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{DataDir: "/data"}
			given := pflag.NewFlagSet("standalone", pflag.ContinueOnError)
			flags.AddQuota(given, &o.Quota)
			err := given.Parse(tc.args)
			if err == nil {
				completeJournal(&o)
				o.Default()
				err = flags.Validate(&o.Quota)
			}
			if tc.wantErr != "" || err != nil {
				if err == nil || tc.wantErr == "" || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got %v, want an error with %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, o.Journal, cmpopts.EquateComparable(config.Duration{})); diff != "" {
				t.Errorf("The journal differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJournalReplica(t *testing.T) {
	of := func(dataDir, journalDir string) string {
		return journalReplicaOf(&Options{DataDir: dataDir, Quota: config.Quota{Journal: config.Journal{File: &config.FileJournal{Directory: journalDir}}}})
	}
	if got := of("/a", "/a/journal"); got != journalReplica {
		t.Errorf("Within the data directory: got %s, want %s", got, journalReplica)
	}
	a, b := of("/a", "/shared"), of("/b", "/shared")
	if a == b || a == journalReplica || b == journalReplica {
		t.Errorf("Two servers with one directory: got %s and %s, want names of their own", a, b)
	}
	if got := of("/a", "/a/../ab"); got == journalReplica {
		t.Errorf("Beside the data directory: got %s, want a name of its own", got)
	}
}
