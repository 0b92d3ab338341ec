// Package datadir is the data directory of a standalone server: its mark, its lock and its files. Clients import it to
// find a running server, so it depends on no part of the server.
package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// formatVersion is the version of the layout of a data directory.
const formatVersion = 1

const (
	markerFile = "bursar.json"
	lockFile   = "lock"

	lockInterval = 50 * time.Millisecond
	lockTimeout  = 2 * time.Second
)

// marker is the content of the file that marks a data directory of Bursar.
type marker struct {
	FormatVersion int `json:"formatVersion"`
}

// Directory is a data directory locked by this process.
type Directory struct {
	path string
	lock *os.File
}

// Open creates or recognises a data directory and locks it. The lock ends with Close, or with the process.
func Open(path string) (*Directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s cannot be created: %w; choose another --data-dir", path, Reason(err))
	}
	if err := checkMarker(path); err != nil {
		return nil, err
	}
	d := &Directory{path: path}
	if d.lock, err = lock(filepath.Join(path, lockFile)); err != nil {
		return nil, fmt.Errorf("data directory %s %w", path, err)
	}
	if err := writeMarker(path); err != nil {
		_ = d.lock.Close()
		return nil, fmt.Errorf("data directory %s cannot be written: %w", path, Reason(err))
	}
	return d, nil
}

// checkMarker rejects directories of other programs and of later versions.
func checkMarker(path string) error {
	content, err := os.ReadFile(filepath.Join(path, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return checkEmpty(path)
	}
	if err != nil {
		return fmt.Errorf("data directory %s cannot be read: %w", path, Reason(err))
	}
	var m marker
	if err := json.Unmarshal(content, &m); err != nil {
		return fmt.Errorf("data directory %s is damaged: %s is not valid JSON", path, markerFile)
	}
	if m.FormatVersion != formatVersion {
		return fmt.Errorf("data directory %s has format version %d, this bursar knows version %d; use the bursar that wrote it", path, m.FormatVersion, formatVersion)
	}
	return nil
}

// checkEmpty makes sure that a directory without a marker is empty, except for a lock file from just before a crash.
func checkEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("data directory %s cannot be read: %w", path, Reason(err))
	}
	for _, entry := range entries {
		if entry.Name() != lockFile {
			return fmt.Errorf("data directory %s is not empty and is not one of bursar's (it holds %q); choose another --data-dir", path, entry.Name())
		}
	}
	return nil
}

func writeMarker(path string) error {
	content, err := json.Marshal(marker{FormatVersion: formatVersion})
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(path, markerFile), append(content, '\n'))
}

// lock locks a data directory and records the holder. It waits a little for a killed process to end.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot be locked: %w; make it writable, or choose another --data-dir", Reason(err))
	}
	err = wait.PollUntilContextTimeout(context.Background(), lockInterval, lockTimeout, true, func(context.Context) (bool, error) {
		err := tryLock(file, exclusive)
		if errors.Is(err, errHeld) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		holder, _ := os.ReadFile(path)
		_ = file.Close()
		if wait.Interrupted(err) {
			return nil, fmt.Errorf("is in use by another bursar%s; stop it or choose another --data-dir", describeHolder(holder))
		}
		return nil, fmt.Errorf("cannot be locked: %w", err)
	}
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cannot be written: %w", Reason(err))
	}
	return file, nil
}

// Default returns the default data directory.
func Default() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "bursar"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the data, give one with --data-dir: %w", err)
	}
	return filepath.Join(home, ".local", "share", "bursar"), nil
}

// Kubeconfig returns the path of the administrator's kubeconfig in a data directory.
func Kubeconfig(path string) string { return filepath.Join(path, "admin.kubeconfig") }

// IsHeld reports whether a server runs on a data directory.
func IsHeld(path string) bool {
	file, err := os.Open(filepath.Join(path, lockFile))
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // it was only asked about
	return errors.Is(tryLock(file, shared), errHeld)
}

// Is reports whether a directory is a data directory of Bursar.
func Is(path string) bool {
	_, err := os.Stat(filepath.Join(path, markerFile))
	return err == nil
}

func describeHolder(content []byte) string {
	if pid := strings.TrimSpace(string(content)); pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// Close unlocks the directory.
func (d *Directory) Close() { _ = d.lock.Close() }

// Path returns the absolute path of the directory.
func (d *Directory) Path() string { return d.path }

// Join returns the path of a file in the directory.
func (d *Directory) Join(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// WriteFile replaces a file in one step, readable by its owner only.
func WriteFile(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // it is gone if all went well
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync()
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// Reason strips the path from a file system error. The caller's sentence names the path already.
func Reason(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
