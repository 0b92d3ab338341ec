package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const templateFile = "../../deploy/krew/bursar.yaml.tmpl"

// dist returns a folder with an archive of the plugin for each platform.
func dist(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range platforms {
		of := target{plugin, p}
		files := []file{{of.file(), executable, []byte("binary for " + p.OS + "/" + p.Arch)}, {"LICENSE", readable, []byte("terms")}}
		if err := pack(filepath.Join(dir, of.archive()), files, modified); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeChecksums(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestManifest makes the manifest as a release does, and installs from it as Krew would.
func TestManifest(t *testing.T) {
	dir := dist(t)
	content, err := render(dir, templateFile, "v1.2.3", "https://example.com/v1.2.3/")
	if err != nil {
		t.Fatal(err)
	}
	if err := check(pluginName, content); err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.Unmarshal(content, &m); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.Platforms) != len(platforms) {
		t.Errorf("the manifest has %d platforms, want %d", len(m.Spec.Platforms), len(platforms))
	}
	for _, p := range m.Spec.Platforms {
		name := strings.TrimPrefix(p.URI, "https://example.com/v1.2.3/")
		if got, err := sumOf(filepath.Join(dir, name)); err != nil || got != p.SHA256 {
			t.Errorf("%s: the checksum is %s, want %s: %v", name, p.SHA256, got, err)
		}
		if !strings.Contains(string(sums), p.SHA256+"  "+name+"\n") {
			t.Errorf("%s lacks %s", checksums, name)
		}
		of := p.Selector.MatchLabels
		if got, want := unpack(t, filepath.Join(dir, name), p.Bin), "binary for "+of["os"]+"/"+of["arch"]; got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// unpack returns the content of an executable file in an archive.
func unpack(t *testing.T, archive, name string) string {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := unzip(t, content)
	if !strings.HasSuffix(archive, ".zip") {
		if files, err = readCompressed(content); err != nil {
			t.Fatal(err)
		}
	}
	at := slices.IndexFunc(files, func(f file) bool { return f.name == name })
	if at < 0 {
		t.Fatalf("%s lacks %s", archive, name)
	}
	if files[at].mode != executable {
		t.Errorf("%s: %s has the mode %v", archive, name, files[at].mode)
	}
	return string(files[at].content)
}

// unzip returns the files of a zip archive, or nothing if it is none.
func unzip(t *testing.T, content []byte) []file {
	t.Helper()
	opened, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil
	}
	var files []file
	for _, entry := range opened.File {
		reader, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		of, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{entry.Name, entry.Mode().Perm(), of})
	}
	return files
}

// TestRules changes a right manifest in ways rejected by Krew or its maintainers.
func TestRules(t *testing.T) {
	right, err := render(dist(t), templateFile, "v1.2.3", "https://example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := check(pluginName, right); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ old, by, want string }{
		"Version":    {"version: v1.2.3", "version: 1.2.3", "no semantic version"},
		"Commit":     {"version: v1.2.3", "version: c475048-dirty", "no semantic version"},
		"Name":       {"name: bursar", "name: Bursar", `its name is "Bursar"`},
		"Kind":       {"kind: Plugin", "kind: Plug", "it is a Plug"},
		"APIVersion": {"v1alpha2", "v1", "it is a Plugin of"},
		"Short":      {"See, explain", strings.Repeat("long ", 9), "the short description has"},
		"Sentence":   {"quota of Bursar", "quota of Bursar.", "no single phrase"},
		"Line":       {"Bursar admits", strings.Repeat("long ", 9), "a line of the description has"},
		"Caveats":    {"The plugin needs", strings.Repeat("long ", 9), "a line of the caveats has"},
		"Sum":        {"sha256: ", "sha256: x", "the checksum is"},
		"HTTP":       {"uri: https://", "uri: http://", "want https"},
		"Archive":    {".tar.gz", ".tgz", "neither .tar.gz nor .zip"},
		"Bin":        {"bin: kubectl-bursar.exe", "bin: kubectl-bursar", "its binary is"},
		"Files":      {"- from: kubectl-bursar\n", "- from: other\n", "is not among the files"},
		"Twice":      {"arch: arm64", "arch: amd64", "is selected twice"},
		"Selector":   {"os: linux", "os: linux\n        libc: musl", "want os and arch"},
		"Field":      {"homepage:", "homepages:", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.ReplaceAll(string(right), tt.old, tt.by)
			if err := check(pluginName, []byte(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if err := check("kubectl-bursar", []byte(strings.ReplaceAll(string(right), "name: bursar", "name: kubectl-bursar"))); err == nil {
		t.Error("a name that begins with kubectl passes")
	}
}
