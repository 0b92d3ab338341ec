package flags

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/config"
)

// noJournal is the location that switches the journal off.
const noJournal = "none"

// addJournal adds the flags of the journal.
func addJournal(flags *pflag.FlagSet, j *config.Journal) {
	j.File = &config.FileJournal{}
	flags.Var(&journalLocation{journal: j}, "journal", "location of the record of all changes of limits and use: a directory, s3://bucket/prefix?endpoint=host:port&region=name, or none (default: journal in the data directory)")
	flags.DurationVar(&j.File.Retention.Duration, "journal-retention", config.DefaultJournalRetention, "age at which Bursar deletes files of the journal, at least 24h")
	flags.Int64Var(&j.File.MaxBytes, "journal-max-bytes", config.DefaultJournalMaxBytes, "maximum bytes of all files of the journal: Bursar deletes the oldest before their time to stay below")
	flags.Int64Var(&j.File.MaxFileBytes, "journal-max-file-bytes", config.DefaultJournalMaxFileBytes, "size in bytes at which Bursar finishes and compresses a file of the journal")
}

// journalLocation is the value of --journal.
type journalLocation struct {
	journal  *config.Journal
	location string
}

// String implements [pflag.Value].
func (l *journalLocation) String() string { return l.location }

// Type implements [pflag.Value].
func (*journalLocation) Type() string { return "location" }

// Set implements [pflag.Value].
func (l *journalLocation) Set(location string) error {
	sink, directory, bucket := config.JournalFile, "", (*config.S3Journal)(nil)
	switch {
	case location == noJournal:
		sink = config.JournalNone
	case config.IsS3Location(location):
		var err error
		if bucket, err = config.ParseS3Location(location); err != nil {
			return err
		}
		sink = config.JournalS3
	case strings.Contains(location, "://"):
		return fmt.Errorf("%q is neither a directory nor s3://bucket/prefix", location)
	case location != "":
		var err error
		if directory, err = filepath.Abs(location); err != nil {
			return err
		}
	}
	l.journal.Sink, l.journal.S3, l.journal.File.Directory, l.location = sink, bucket, directory, location
	return nil
}
