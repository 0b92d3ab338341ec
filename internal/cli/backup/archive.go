package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// isDirectory reports whether a path is, or is to be, a directory.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() || strings.HasSuffix(path, string(filepath.Separator))
}

const (
	// partPrefix begins the names of directories with a backup that is being written.
	partPrefix = ".bursar-backup-"
	// completeName is the directory of a complete backup inside of the directory that it moves into. Its files replace
	// those of the earlier backup, one after the other. Until then, readers look there first.
	completeName = partPrefix + "complete"
)

// prepareDirectory makes a directory for a backup. It completes an interrupted move. An existing directory has to be
// empty, or a backup.
func prepareDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory %s: %w", dir, err)
	}
	if err := settle(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the directory %s: %w", dir, err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), partPrefix) })
	if _, err := os.Stat(filepath.Join(dir, manifestName)); len(entries) > 0 && err != nil {
		return fmt.Errorf("%s has files and is not a backup: name an empty directory, or a file", dir)
	}
	return nil
}

// moveInto makes the files in a directory inside of dir the backup in dir. The first rename is the change from the
// earlier backup to this one.
func moveInto(from, dir string) error {
	if err := os.Rename(from, filepath.Join(dir, completeName)); err != nil {
		return fmt.Errorf("replace the backup in %s: %w", dir, err)
	}
	return settle(dir)
}

// settle moves the files of a complete backup to their places, if there is one, and removes the files that only the
// earlier backup had. Readers find each file in either place. The manifest comes last: until then the manifest of the
// earlier backup names its files.
func settle(dir string) error {
	complete := filepath.Join(dir, completeName)
	entries, err := os.ReadDir(complete)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the backup in %s: %w", complete, err)
	}
	move := func(name string) error { return os.Rename(filepath.Join(complete, name), filepath.Join(dir, name)) }
	for _, entry := range entries {
		if entry.Name() == manifestName {
			continue
		}
		if err := move(entry.Name()); err != nil {
			return fmt.Errorf("move the backup into %s: %w", dir, err)
		}
	}
	removeFormer(dir)
	if err := move(manifestName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("move the backup into %s: %w", dir, err)
	}
	if err := os.Remove(complete); err != nil {
		return fmt.Errorf("move the backup into %s: %w", dir, err)
	}
	return nil
}

// removeFormer removes the files that only the earlier backup in a directory has, such as those of a kind no longer
// served. Left behind they do no harm: no reader looks for them.
func removeFormer(dir string) {
	former, err := readManifest(filepath.Join(dir, manifestName))
	if err != nil {
		return // there is no earlier backup, or one of a later version
	}
	now, err := readManifest(filepath.Join(dir, completeName, manifestName))
	if err != nil {
		return // it has been moved
	}
	names := fileNames(now)
	for _, name := range fileNames(former) {
		if filepath.Base(name) == name && !slices.Contains(names, name) {
			_ = os.Remove(filepath.Join(dir, name)) // see above
		}
	}
}

// partAgeMax is longer than a backup takes.
const partAgeMax = 24 * time.Hour

// removeParts removes what killed backups left behind: each may have a whole copy of the quota.
func removeParts(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // making the part of this backup fails, too
	}
	for _, entry := range entries {
		info, err := entry.Info()
		isPart := strings.HasPrefix(entry.Name(), partPrefix) && entry.Name() != completeName && entry.IsDir()
		if isPart && err == nil && time.Since(info.ModTime()) > partAgeMax {
			_ = os.RemoveAll(filepath.Join(parent, entry.Name())) // the next backup tries again
		}
	}
}

func fileNames(manifest *Manifest) []string {
	names := make([]string, 0, len(manifest.Files))
	for _, file := range manifest.Files {
		names = append(names, file.Name)
	}
	return names
}

// pack writes the files of a backup into one compressed file. The file gets its name only once it is complete.
func pack(dir, path string, manifest *Manifest) (err error) {
	part := filepath.Join(dir, "packed")
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	for _, name := range append([]string{manifestName}, fileNames(manifest)...) {
		if err == nil {
			err = addFile(archive, dir, name)
		}
	}
	for _, end := range []func() error{archive.Close, compressed.Close, file.Sync, file.Close} {
		if errEnd := end(); err == nil {
			err = errEnd
		}
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("write the backup %s: %w", path, err)
	}
	return nil
}

func addFile(archive *tar.Writer, dir, name string) error {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// Archive is an open backup.
type Archive struct {
	Manifest *Manifest
	dir      string
	isOwn    bool
}

// Open opens a backup, and checks its files against the manifest. Close it after use.
func Open(path string) (_ *Archive, err error) {
	a := &Archive{dir: path}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if !isDirectory(path) {
		if a.dir, err = os.MkdirTemp("", "bursar-restore-"); err != nil {
			return nil, fmt.Errorf("make a directory to unpack the backup: %w", err)
		}
		a.isOwn = true
		if err := unpack(path, a.dir); err != nil {
			return nil, fmt.Errorf("read the backup %s: %w", path, err)
		}
	}
	if a.Manifest, err = readManifest(a.path(manifestName)); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a complete backup: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the backup %s: %w", path, err)
	}
	for i := range a.Manifest.Files {
		if err := a.check(&a.Manifest.Files[i]); err != nil {
			return nil, fmt.Errorf("the backup %s is damaged: %w", path, err)
		}
	}
	return a, nil
}

// path returns the path of a file. After an interrupted move it may be still on its way.
func (a *Archive) path(name string) string {
	moving := filepath.Join(a.dir, completeName, name)
	if _, err := os.Stat(moving); err == nil {
		return moving
	}
	return filepath.Join(a.dir, name)
}

// Close removes the unpacked files.
func (a *Archive) Close() {
	if a.isOwn {
		_ = os.RemoveAll(a.dir) // in the directory for temporary files
	}
}

// unpack writes the files of a packed backup into a directory.
func unpack(path, dir string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	compressed, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return fmt.Errorf("it is not compressed like a backup: %w", err)
	}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || filepath.Base(header.Name) != header.Name {
			return fmt.Errorf("it holds %q, and no backup has such a file", header.Name)
		}
		if err := extract(archive, filepath.Join(dir, header.Name)); err != nil {
			return err
		}
	}
}

func extract(from io.Reader, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if errClose := file.Close(); err == nil {
		err = errClose
	}
	return err
}

// check compares a file with its description.
func (a *Archive) check(described *File) error {
	if filepath.Base(described.Name) != described.Name {
		return fmt.Errorf("its manifest names the file %q, and no backup has such a file", described.Name)
	}
	sum, lines := sha256.New(), 0
	err := a.eachLine(described.Name, func(line []byte) error {
		lines++
		_, err := sum.Write(line)
		return err
	})
	switch {
	case err != nil:
		return err
	case hex.EncodeToString(sum.Sum(nil)) != described.SHA256:
		return fmt.Errorf("the checksum of %s differs from the one in its manifest", described.Name)
	case lines != described.Objects:
		return fmt.Errorf("%s has %d objects, and its manifest states %d", described.Name, lines, described.Objects)
	}
	return nil
}

func (a *Archive) eachLine(name string, do func([]byte) error) error {
	file, err := os.Open(a.path(name))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := do(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Each calls do with every object of a resource. For a resource without a file in the backup, it does nothing.
func (a *Archive) Each(resource string, do func(*unstructured.Unstructured) error) error {
	for _, described := range a.Manifest.Files {
		if described.Resource != resource {
			continue
		}
		err := a.eachLine(described.Name, func(line []byte) error {
			object := &unstructured.Unstructured{}
			if err := utiljson.Unmarshal(bytes.TrimSpace(line), &object.Object); err != nil {
				return fmt.Errorf("%s: %w", described.Name, err)
			}
			return do(object)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Decode decodes an object of a backup.
func Decode(object *unstructured.Unstructured, into any) error {
	content, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}
