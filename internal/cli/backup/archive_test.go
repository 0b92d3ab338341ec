package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage writes the files of a backup into a directory inside of dir, as [Write] does. Every object in it has a value.
func stage(t *testing.T, dir, value string, resources ...string) (part string) {
	t.Helper()
	part, err := os.MkdirTemp(dir, partPrefix)
	must(t, err)
	manifest := &Manifest{FormatVersion: formatVersion}
	for _, resource := range resources {
		line := fmt.Sprintf("{\"value\":%q}\n", value)
		sum := sha256.Sum256([]byte(line))
		file := File{Name: resource + ".jsonl", Resource: resource, Objects: 1, SHA256: hex.EncodeToString(sum[:])}
		must(t, os.WriteFile(filepath.Join(part, file.Name), []byte(line), 0o600))
		manifest.Files = append(manifest.Files, file)
	}
	content, err := json.Marshal(manifest)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(part, manifestName), content, 0o600))
	return part
}

// wantValue opens a backup, and compares the values of its objects.
func wantValue(t *testing.T, reason, path, want string) {
	t.Helper()
	archive, err := Open(path)
	if err != nil {
		t.Errorf("%s: %v", reason, err)
		return
	}
	defer archive.Close()
	for _, file := range archive.Manifest.Files {
		err := archive.Each(file.Resource, func(object *unstructured.Unstructured) error {
			if got := object.Object["value"]; got != want {
				t.Errorf("%s: %s has the value %v, want %s", reason, file.Resource, got, want)
			}
			return nil
		})
		must(t, err)
	}
}

// TestDirectoryIsReplacedAtOnce interrupts the replacement of a backup in a directory after each of its steps. The
// directory always has one of the two backups.
func TestDirectoryIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	resources := []string{"claims", "grants", "a-first"}
	for moved := range len(resources) + 1 {
		dir := t.TempDir()
		must(t, prepareDirectory(dir))
		must(t, moveInto(stage(t, dir, "old", resources...), dir))
		wantValue(t, "a first backup", dir, "old")

		part := stage(t, dir, "new", resources...)
		wantValue(t, "before the change", dir, "old")
		must(t, os.Rename(part, filepath.Join(dir, completeName)))
		names := []string{"claims.jsonl", "grants.jsonl", "a-first.jsonl"}
		slices.Sort(names)
		for _, name := range names[:moved] {
			must(t, os.Rename(filepath.Join(dir, completeName, name), filepath.Join(dir, name)))
		}
		wantValue(t, fmt.Sprintf("after %d moves", moved), dir, "new")

		must(t, prepareDirectory(dir))
		wantValue(t, "after the completion", dir, "new")
		if _, err := os.Stat(filepath.Join(dir, completeName)); !os.IsNotExist(err) {
			t.Errorf("after %d moves: got %v, want the directory of the move to be gone", moved, err)
		}
		must(t, moveInto(stage(t, dir, "newest", resources...), dir))
		wantValue(t, "the next backup", dir, "newest")
	}
}

// TestLeftoversGo replaces a backup by one without some of its files, also after an interruption at each step. Those
// files go, and files of others stay. What killed backups left goes after a day.
func TestLeftoversGo(t *testing.T) {
	t.Parallel()
	for moved := range 3 {
		dir := t.TempDir()
		must(t, prepareDirectory(dir))
		must(t, moveInto(stage(t, dir, "old", "claims", "gone", "zones"), dir))
		must(t, os.WriteFile(filepath.Join(dir, "notes.jsonl"), nil, 0o600))
		must(t, os.Rename(stage(t, dir, "new", "claims", "kept"), filepath.Join(dir, completeName)))
		for _, name := range []string{"claims.jsonl", "kept.jsonl"}[:moved] {
			must(t, os.Rename(filepath.Join(dir, completeName, name), filepath.Join(dir, name)))
		}
		must(t, prepareDirectory(dir))
		wantValue(t, "after the completion", dir, "new")
		wantEntries(t, dir, "claims.jsonl", "kept.jsonl", manifestName, "notes.jsonl")
	}

	dir := t.TempDir()
	young, old := stage(t, dir, "young", "claims"), stage(t, dir, "old", "claims")
	other := filepath.Join(dir, "other")
	must(t, os.Mkdir(other, 0o700))
	before := time.Now().Add(-partAgeMax - time.Minute)
	for _, path := range []string{old, other} {
		must(t, os.Chtimes(path, before, before))
	}
	removeParts(dir)
	wantEntries(t, dir, filepath.Base(young), "other")
}

func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the directory has %v, want %v", got, want)
	}
}

// TestDirectoryOfOthersStays rejects directories with files of others. A leftover of an interrupted backup is none.
func TestDirectoryOfOthersStays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "quota")
	must(t, prepareDirectory(dir))
	stage(t, dir, "left over", "claims")
	must(t, prepareDirectory(dir))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is not a complete backup") {
		t.Errorf("a leftover: got %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600))
	if err := prepareDirectory(dir); err == nil || !strings.Contains(err.Error(), "has files and is not a backup") {
		t.Errorf("a directory of others: got %v", err)
	}
}

// TestManifestOfAnotherVersion reads the first form, and rejects later ones.
func TestManifestOfAnotherVersion(t *testing.T) {
	t.Parallel()
	first, err := decodeManifest([]byte(`{"formatVersion": 1, "files": [{"resource": "claims", "objects": 1}]}`))
	must(t, err)
	if first.HasNamespaces() || !first.Has("claims") || first.Has("grants") {
		t.Errorf("the first form is %+v", first)
	}
	if _, err := decodeManifest([]byte(`{"formatVersion": 99, "bursar": "v9.0.0"}`)); err == nil || !strings.Contains(err.Error(), "restore it with a later version") {
		t.Errorf("a later form: got %v", err)
	}
}
