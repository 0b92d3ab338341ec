package apiserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// databaseLockTimeout is how long another process may hold the lock of etcd's database.
const databaseLockTimeout = time.Second

// checkEtcd reads the files of an embedded etcd as etcd does at its start, and returns any damage. The remains of a
// killed process are no damage.
//
// etcd 3.6.8 itself, started on each kind of damage in this function's test, returns an error for one: a log entry with
// a wrong checksum. It kills the process for five: an overwritten database, one cut short, one with overwritten pages,
// and a log without its first entry. These are panics of bbolt and a memory fault, some in goroutines of etcd, out of
// reach of a recover. It hangs for two: a removed log, and one with an end before the database's. And it starts again
// from the log for two, a removed and an empty database, although the log is complete only until the first snapshot.
//
// So neither the logger's hooks for panics and fatal errors nor a supervised child process can replace the read. The
// hooks see no panic of bbolt and no memory fault. A child process needs a timeout for a hang, and passes a start from
// the log.
func checkEtcd(dir string) error {
	inUse := wal.Exist(datadir.ToWALDir(dir))
	applied, err := readSafely(func() (uint64, error) {
		return checkDatabase(datadir.ToBackendFileName(dir), inUse)
	})
	if err != nil {
		return fmt.Errorf("etcd cannot read its database (%w)", err)
	}
	if !inUse {
		if applied > 0 {
			return errors.New("etcd's database is there, but not the log that belongs to it")
		}
		return nil
	}
	if _, err := readSafely(func() (uint64, error) { return 0, checkLog(dir, applied) }); err != nil {
		return fmt.Errorf("etcd cannot read its log (%w)", err)
	}
	return nil
}

// readSafely runs read, and returns its panic as an error: the libraries panic on invalid files, and following a wrong
// pointer in a mapped file is a memory fault.
func readSafely(read func() (uint64, error)) (value uint64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch problem := recover().(type) {
		case nil:
		case runtime.Error:
			err = errors.New("a pointer in it leads nowhere")
		default:
			err = errors.New(firstLine(fmt.Sprint(problem)))
		}
	}()
	return read()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// checkDatabase reads the whole database, and returns the index of the last applied log entry. A database in use must
// exist.
func checkDatabase(path string, inUse bool) (applied uint64, err error) {
	info, err := os.Stat(path)
	isMissing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isMissing {
		return 0, err
	}
	if isMissing || info.Size() == 0 {
		if inUse {
			return 0, errors.New("it is missing or empty")
		}
		return 0, nil
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: databaseLockTimeout})
	if err != nil {
		return 0, err
	}
	defer closeQuietly(db)
	err = db.View(func(tx *bolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it has %d bytes, and should have %d", info.Size(), tx.Size())
		}
		if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
			if index := meta.Get(schema.MetaConsistentIndexKeyName); len(index) == 8 {
				applied = binary.BigEndian.Uint64(index)
			}
		}
		return tx.ForEach(checkBucket)
	})
	return applied, err
}

// checkBucket reads every key of a bucket, and the values of the bucket with the objects.
func checkBucket(name []byte, bucket *bolt.Bucket) error {
	objects := bytes.Equal(name, schema.Key.Name())
	var last []byte
	return bucket.ForEach(func(key, value []byte) error {
		if last != nil && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("keys of bucket %q are out of order", name)
		}
		last = key
		if !objects {
			return nil
		}
		_ = mvcc.BytesToBucketKey(key) // panics on an invalid key
		var object mvccpb.KeyValue
		if err := object.Unmarshal(value); err != nil {
			return fmt.Errorf("a value in bucket %q: %w", name, err)
		}
		return nil
	})
}

// checkLog reads the log from the last snapshot on, and rejects a log without the last entry in the database. A partial
// last entry is no damage: etcd cuts it off.
func checkLog(dir string, applied uint64) error {
	logger := zap.NewNop()
	noted, err := wal.ValidSnapshotEntries(logger, datadir.ToWALDir(dir))
	if err != nil {
		return err
	}
	snapshot, err := snap.New(logger, datadir.ToSnapDir(dir)).LoadNewestAvailable(noted)
	if err != nil && !errors.Is(err, snap.ErrNoSnapshot) {
		return err
	}
	var start walpb.Snapshot
	if snapshot != nil {
		start.Index, start.Term = snapshot.Metadata.Index, snapshot.Metadata.Term
	}
	log, err := wal.OpenForRead(logger, datadir.ToWALDir(dir), start)
	if err != nil {
		return err
	}
	defer closeQuietly(log)
	_, _, entries, err := log.ReadAll()
	if err != nil {
		return err
	}
	last := start.Index + uint64(len(entries))
	switch {
	case applied < start.Index:
		return fmt.Errorf("it begins at entry %d, but the database ends at entry %d", start.Index, applied)
	case applied > last:
		return fmt.Errorf("it ends at entry %d, but the database has entry %d", last, applied)
	}
	return nil
}

// damage returns one sentence on why etcd cannot start on a data directory.
func damage(dataDir string, err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, berrors.ErrTimeout) {
		return fmt.Errorf("data directory %s cannot be read: %w", dataDir, err)
	}
	return fmt.Errorf("data directory %s is damaged: %w; restore a backup or choose another --data-dir", dataDir, err)
}
