package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const templateFile = "../../deploy/krew/bursar.yaml.tmpl"

// dist returns a folder with a binary for each platform, and their archives.
func dist(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range platforms {
		folder := filepath.Join(dir, p.OS+"-"+p.Arch)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, p.bin()), []byte("binary for "+p.OS+"/"+p.Arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run([]string{"archive", dir}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestManifest makes the manifest as a release does, and installs from it what Krew would.
func TestManifest(t *testing.T) {
	dir := dist(t)
	if err := run([]string{"manifest", dir, templateFile, "v1.2.3", "https://example.com/v1.2.3/"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "bursar.yaml"))
	if err != nil {
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
	var found io.Reader
	var mode os.FileMode
	if strings.HasSuffix(archive, ".zip") {
		opened, err := zip.OpenReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close() //nolint:errcheck // it is only read
		file, err := opened.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		found, mode = file, opened.File[0].Mode()
	} else {
		file, err := os.Open(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close() //nolint:errcheck // it is only read
		compressed, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		reader := tar.NewReader(compressed)
		header, err := reader.Next()
		if err != nil || header.Name != name {
			t.Fatalf("%s begins with %v, want %s: %v", archive, header, name, err)
		}
		found, mode = reader, header.FileInfo().Mode()
	}
	content, err := io.ReadAll(found)
	if err != nil {
		t.Fatal(err)
	}
	if mode.Perm() != executable {
		t.Errorf("%s: %s has the mode %v", archive, name, mode)
	}
	return string(content)
}

// TestSameArchive makes sure that the same binary makes the same archive, so that others can check it.
func TestSameArchive(t *testing.T) {
	first, second := dist(t), dist(t)
	for _, p := range platforms {
		a, errA := sumOf(filepath.Join(first, p.archive()))
		b, errB := sumOf(filepath.Join(second, p.archive()))
		if a != b || errA != nil || errB != nil {
			t.Errorf("%s is %s and %s: %v, %v", p.archive(), a, b, errA, errB)
		}
	}
}

// TestRules changes a right manifest so that Krew would reject it, or its maintainers.
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

// TestTargetPlatforms makes sure that the Makefile builds the platforms that are packed.
func TestTargetPlatforms(t *testing.T) {
	content, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range platforms {
		names = append(names, p.OS+"-"+p.Arch)
	}
	if want := fmt.Sprintf("\nPLATFORMS = %s\n", strings.Join(names, " ")); !strings.Contains(string(content), want) {
		t.Errorf("the Makefile lacks %q", want)
	}
}
