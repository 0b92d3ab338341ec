package files

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// tailBytes bounds each step of the search for a torn line.
const tailBytes = 64 << 10

// cut cuts off everything after the last whole line.
func cut(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // everything that counts is synced
	whole, size, err := wholeBytes(file)
	if err != nil || whole == size {
		return err
	}
	if err := file.Truncate(whole); err != nil {
		return err
	}
	return file.Sync()
}

// wholeBytes returns the size of a file up to the end of the last whole line, and its size. A crash may leave a part
// of a line, and unwritten blocks of zeros.
func wholeBytes(file *os.File) (whole, size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	size = info.Size()
	whole, err = lineEnd(file, size)
	for err == nil && whole > 0 {
		begin, err := lineEnd(file, whole-1)
		if err != nil {
			return 0, 0, err
		}
		line := make([]byte, whole-begin)
		if _, err := file.ReadAt(line, begin); err != nil {
			return 0, 0, err
		}
		if json.Valid(line) {
			return whole, size, nil
		}
		whole = begin
	}
	return whole, size, err
}

// lineEnd returns the end of the last line that ends before the given offset.
func lineEnd(file *os.File, before int64) (int64, error) {
	tail := make([]byte, tailBytes)
	for before > 0 {
		part := tail[:min(before, tailBytes)]
		if _, err := file.ReadAt(part, before-int64(len(part))); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return before - int64(len(part)) + int64(at) + 1, nil
		}
		before -= int64(len(part))
	}
	return 0, nil
}

// temporarySuffix ends the names of temporary files of a replica, and of no other: no name of a replica has a tilde.
func temporarySuffix(replica string) string { return "~" + replica + temporary }

// compress replaces a finished file by a compressed one, and sets file to the compressed one. It deletes a file
// without entries.
func compress(ctx context.Context, file *stored, replica string) error {
	from, err := os.Open(file.path)
	if errors.Is(err, fs.ErrNotExist) { // another replica was faster
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	whole, _, err := wholeBytes(from)
	if err != nil {
		return err
	}
	if whole == 0 {
		file.size = 0
		return removeIfExists(file.path)
	}
	dir := filepath.Dir(file.path)
	path := filepath.Join(dir, "."+file.String()+temporarySuffix(replica))
	size, err := writeCompressed(ctx, path, io.NewSectionReader(from, 0, whole))
	if err == nil {
		// The time of the last entry decides about the age of the file, and about the queries that need it.
		err = os.Chtimes(path, file.changed, file.changed)
	}
	if err == nil {
		err = os.Rename(path, file.path+".gz")
	}
	if err != nil {
		return errors.Join(err, removeIfExists(path))
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	plainPath := file.path
	file.isCompressed, file.path, file.size = true, file.path+".gz", size
	return removeIfExists(plainPath)
}

// writeCompressed writes and syncs a compressed file.
func writeCompressed(ctx context.Context, path string, from io.Reader) (size int64, err error) {
	to, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return 0, err
	}
	packer := gzip.NewWriter(to)
	_, err = io.Copy(packer, contextReader{ctx, from})
	err = errors.Join(err, packer.Close(), to.Sync())
	if info, statErr := to.Stat(); statErr == nil {
		size = info.Size()
	}
	return size, errors.Join(err, to.Close())
}

// contextReader ends with its context.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

// Read implements [io.Reader].
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
