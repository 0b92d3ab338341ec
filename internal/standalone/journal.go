package standalone

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/config"
)

const (
	// journalReplica is the name of a server in the names of its journal's files.
	journalReplica = "standalone"
	// journalDir is the journal in the data directory.
	journalDir = "journal"
	// noJournal, as the location, switches the journal off.
	noJournal = "none"
)

// journalReplicaOf returns the name of a server in the names of its journal's files. Servers may share a directory, and
// servers on one etcd cluster may have the same path of a data directory on several machines, so each of them has a
// name of its own. Only a journal within the data directory of one server has a short name.
func journalReplicaOf(o *Options) string {
	if len(o.Etcd.Servers) == 0 && isWithinData(o) {
		return journalReplica
	}
	host, _ := os.Hostname() // without it, the directory suffices on one machine
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		dir = o.DataDir
	}
	return fmt.Sprintf("%s-%08x", journalReplica, crc32.ChecksumIEEE([]byte(host+":"+dir)))
}

// isWithinData reports whether the journal's files, if any, are within the data directory.
func isWithinData(o *Options) bool {
	if o.Journal.File == nil || o.Journal.File.Directory == "" {
		return true
	}
	data, err := filepath.Abs(o.DataDir)
	if err != nil {
		return false
	}
	relative, err := filepath.Rel(data, o.Journal.File.Directory)
	return err == nil && filepath.IsLocal(relative)
}

// addJournalFlags adds the flags of the journal.
func addJournalFlags(flags *pflag.FlagSet, j *config.Journal) {
	j.File = &config.FileJournal{}
	flags.Var(&journalLocation{journal: j}, "journal", "where each change of limits and use is recorded: a directory, s3://bucket/prefix?endpoint=host:port&region=name, or none (default: journal in the data directory)")
	flags.DurationVar(&j.File.Retention.Duration, "journal-retention", config.DefaultJournalRetention, "age at which files of the journal are deleted, at least 24h")
	flags.Int64Var(&j.File.MaxBytes, "journal-max-bytes", config.DefaultJournalMaxBytes, "size of all files of the journal, above which the oldest are deleted before their time")
	flags.Int64Var(&j.File.MaxFileBytes, "journal-max-file-bytes", config.DefaultJournalMaxFileBytes, "size at which a file of the journal is finished and compressed")
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

// completeJournal sets the defaults different from those on a cluster: files in the data directory.
func completeJournal(o *Options) {
	j := &o.Journal
	if j.Sink == "" {
		j.Sink = config.JournalFile
	}
	if j.Sink != config.JournalFile {
		j.File = nil // the flags have defaults
		return
	}
	if j.File == nil {
		j.File = &config.FileJournal{}
	}
	if j.File.Directory == "" {
		j.File.Directory = filepath.Join(o.DataDir, journalDir)
		if absolute, err := filepath.Abs(j.File.Directory); err == nil {
			j.File.Directory = absolute
		}
	}
}
