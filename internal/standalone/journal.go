package standalone

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/bursar/bursar/internal/config"
)

const (
	// journalReplica is the name of a server in the names of its journal's files.
	journalReplica = "standalone"
	// journalDir is the journal in the data directory.
	journalDir = "journal"
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

// completeJournal sets the defaults that differ from those on a cluster: files in the data directory.
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
