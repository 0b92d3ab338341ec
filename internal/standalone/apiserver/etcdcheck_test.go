package apiserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	pageBytes = 4096
	// objects of about objectBytes each take some fifty pages.
	objects     = 200
	objectBytes = 1000
)

// newEtcdDirectory returns the data directory of an ended etcd with some objects, the name of its log, and the log's
// content halfway.
func newEtcdDirectory(t *testing.T) (dir, log string, logHalfway []byte) {
	t.Helper()
	dir = t.TempDir()
	p, err := openPKI(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, err := startEtcd(t.Context(), dir, filepath.Join(t.TempDir(), "etcd.log"), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(client)
	log = filepath.Join("member", "wal", "0000000000000000-0000000000000000.wal")
	for n := range objects {
		if n == objects/2 {
			if logHalfway, err = os.ReadFile(filepath.Join(dir, etcdMember, log)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client.Put(t.Context(), fmt.Sprintf("/registry/%03d", n), strings.Repeat("x", objectBytes)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, etcdMember), log, logHalfway
}

func copyDirectory(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// change rewrites a file.
func change(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// logUsed is how much of a log is written. The rest of the file is zero.
func logUsed(content []byte) int { return len(bytes.TrimRight(content, "\x00")) }

func fill(content []byte) {
	for n := range content {
		content[n] = 0xa5
	}
}

// TestCheckEtcd proves that checkEtcd finds damage of every kind, and nothing else.
func TestCheckEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts etcd")
	}
	healthy, log, logHalfway := newEtcdDirectory(t)
	database := filepath.Join("member", "snap", "db")
	tests := map[string]struct {
		reason string
		damage func(t *testing.T, dir string)
		want   string
	}{
		"healthy": {"a directory that was closed is fine", func(*testing.T, string) {}, ""},
		"empty":   {"so is one that was never used", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "member")) }, ""},
		"database overwritten": {"nothing of it is left", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, database), func(content []byte) []byte { fill(content); return content })
		}, "etcd cannot read its database (invalid database)"},
		"database cut short": {"pages are missing", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, database), func(content []byte) []byte { return content[:4*pageBytes] })
		}, "etcd cannot read its database (it has 16384 bytes, and should have"},
		"pages overwritten": {"the first pages say where the others are", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, database), func(content []byte) []byte { fill(content[2*pageBytes:]); return content })
		}, "etcd cannot read its database ("},
		"database removed": {"etcd would begin with nothing", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, database))
		}, "etcd cannot read its database (it is missing or empty)"},
		"database empty": {"etcd would begin with nothing", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, database), func([]byte) []byte { return nil })
		}, "etcd cannot read its database (it is missing or empty)"},
		"log overwritten": {"nothing of it is left", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, log), func(content []byte) []byte { fill(content); return content })
		}, "etcd cannot read its log ("},
		"log damaged": {"one entry is not what was written", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, log), func(content []byte) []byte { content[logUsed(content)/2] ^= 0xff; return content })
		}, "etcd cannot read its log ("},
		"log cut short": {"entries that the database has are missing, and etcd would skip as many new ones", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, log), func([]byte) []byte { return logHalfway })
		}, "but the database has entry"},
		"log removed": {"etcd would take what is new for what it has", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, log))
		}, "not the log that belongs to it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := copyDirectory(t, healthy)
			tt.damage(t, dir)
			got := ""
			if err := checkEtcd(dir); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" || strings.Contains(got, "\n") {
				t.Errorf("%s: checkEtcd says %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
	t.Run("each page overwritten", func(t *testing.T) { checkEachPage(t, filepath.Join(healthy, database)) })
}

// checkEachPage overwrites one page of a database after another. The check misses the pages in use, and none brings the
// process down.
func checkEachPage(t *testing.T, path string) {
	healthy, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(file)
	garbage, recognised := make([]byte, pageBytes), 0
	fill(garbage)
	const pages = objects * objectBytes / pageBytes
	for page := range pages {
		at := page * pageBytes
		if _, err := file.WriteAt(garbage, int64(at)); err != nil {
			t.Fatal(err)
		}
		if _, err := readSafely(func() (uint64, error) { return checkDatabase(path, true) }); err != nil {
			recognised++
		}
		if _, err := file.WriteAt(healthy[at:at+pageBytes], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if recognised < pages/2 {
		t.Errorf("of %d pages, %d were recognised as damaged", pages, recognised)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
