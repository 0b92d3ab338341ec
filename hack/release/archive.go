package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// executable is the mode of binaries, and readable of everything else.
	executable = 0o755
	readable   = 0o644
)

// file is an entry of an archive.
type file struct {
	name    string
	mode    os.FileMode
	content []byte
}

// pack writes an archive, in the format of its name. The same files and time make the same bytes.
func pack(path string, files []file, modified time.Time) error {
	var content bytes.Buffer
	write := writeTar
	switch {
	case strings.HasSuffix(path, ".zip"):
		write = writeZip
	case strings.HasSuffix(path, "gz"):
		write = writeCompressed
	}
	if err := write(&content, files, modified); err != nil {
		return fmt.Errorf("pack %s: %w", filepath.Base(path), err)
	}
	return publish(path, content.Bytes())
}

func writeZip(to io.Writer, files []file, modified time.Time) error {
	archive := zip.NewWriter(to)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeCompressed(to io.Writer, files []file, modified time.Time) error {
	compressed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(compressed, files, modified); err != nil {
		return err
	}
	return compressed.Close()
}

func writeTar(to io.Writer, files []file, modified time.Time) error {
	archive := tar.NewWriter(to)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: modified}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// readCompressed returns the files of a compressed tar archive.
func readCompressed(content []byte) ([]file, error) {
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(compressed)
	var files []file
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		files = append(files, file{header.Name, header.FileInfo().Mode().Perm(), content})
	}
}

// writeChecksums lists all files of the folder by name.
func writeChecksums(dist string) error {
	entries, err := os.ReadDir(dist)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == checksums {
			continue
		}
		sum, err := sumOf(filepath.Join(dist, entry.Name()))
		if err != nil {
			return err
		}
		lines.WriteString(sum + "  " + entry.Name() + "\n")
	}
	return publish(filepath.Join(dist, checksums), []byte(lines.String()))
}

func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read a file to publish: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}
