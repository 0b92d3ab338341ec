package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// pluginName is what users type after kubectl, and binary is the file that kubectl finds.
	pluginName = "bursar"
	binary     = "kubectl-bursar"
	// checksums is the file with the checksums of all archives, as sha256sum writes it.
	checksums = "checksums.txt"
	// executable is the mode of the binary.
	executable = 0o755
)

// packed is the time of all files in archives, so that the same binary makes the same archive.
var packed = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// platform is a system that the plugin is built for.
type platform struct{ OS, Arch string }

// platforms are all of them.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func (p platform) isWindows() bool { return p.OS == "windows" }

// bin is the name of the binary.
func (p platform) bin() string {
	if p.isWindows() {
		return binary + ".exe"
	}
	return binary
}

// archive is the name of the archive.
func (p platform) archive() string {
	suffix := ".tar.gz"
	if p.isWindows() {
		suffix = ".zip"
	}
	return binary + "-" + p.OS + "-" + p.Arch + suffix
}

// archiveAll makes the archives of all platforms, and the file with their checksums.
func archiveAll(dist string) error {
	var lines []string
	for _, p := range platforms {
		if err := p.pack(dist); err != nil {
			return fmt.Errorf("pack %s for %s/%s: %w", binary, p.OS, p.Arch, err)
		}
		sum, err := sumOf(filepath.Join(dist, p.archive()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+p.archive()+"\n")
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(dist, checksums), []byte(strings.Join(lines, "")), 0o644) //nolint:gosec // it is published
}

func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the archive: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}

// pack makes the archive of a platform.
func (p platform) pack(dist string) (err error) {
	from, err := os.Open(filepath.Join(dist, p.OS+"-"+p.Arch, p.bin()))
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it is only read
	to, err := os.Create(filepath.Join(dist, p.archive()))
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := to.Close(); err == nil {
			err = closeErr
		}
	}()
	if p.isWindows() {
		return packZip(to, from, p.bin())
	}
	return packTar(to, from, p.bin())
}

func packZip(to io.Writer, from io.Reader, name string) error {
	archive := zip.NewWriter(to)
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: packed}
	header.SetMode(executable)
	entry, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	if _, err := io.Copy(entry, from); err != nil {
		return err
	}
	return archive.Close()
}

func packTar(to io.Writer, from *os.File, name string) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	compressed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: executable, Size: info.Size(), ModTime: packed}); err != nil {
		return err
	}
	if _, err := io.Copy(archive, from); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}
