package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/licenseclassifier/v2/assets"
)

var modified = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// TestSameArchive makes the same archive of the same files, so others can check it.
func TestSameArchive(t *testing.T) {
	files := []file{{"binary", executable, []byte("code")}, {"LICENSE", readable, []byte("text")}}
	for _, name := range []string{"a.tar.gz", "a.zip", "a.tar"} {
		var sums []string
		for range 2 {
			path := filepath.Join(t.TempDir(), name)
			if err := pack(path, files, modified); err != nil {
				t.Fatal(err)
			}
			sum, err := sumOf(path)
			if err != nil {
				t.Fatal(err)
			}
			sums = append(sums, sum)
		}
		if sums[0] != sums[1] {
			t.Errorf("%s has the checksums %s", name, sums)
		}
	}
}

func TestTargetsOf(t *testing.T) {
	for name, tt := range map[string]struct {
		reason, binaries, platforms string
		want                        []string
		wantErr                     string
	}{
		"All": {
			reason:   "servers run on Linux and macOS, and the plugin also on Windows",
			binaries: "all", platforms: "all", want: []string{
				"bursar-linux-amd64", "bursar-linux-arm64", "bursar-darwin-amd64", "bursar-darwin-arm64",
				"bursar-operator-linux-amd64", "bursar-operator-linux-arm64", "bursar-operator-darwin-amd64", "bursar-operator-darwin-arm64",
				"kubectl-bursar-linux-amd64", "kubectl-bursar-linux-arm64", "kubectl-bursar-darwin-amd64", "kubectl-bursar-darwin-arm64",
				"kubectl-bursar-windows-amd64", "kubectl-bursar-windows-arm64",
			},
		},
		"Some":            {reason: "lists select", binaries: "bursar,bursar-operator", platforms: "linux-arm64", want: []string{"bursar-linux-arm64", "bursar-operator-linux-arm64"}},
		"UnknownBinary":   {reason: "a typing error must not release less", binaries: "bursar,kubectl", platforms: "all", wantErr: `nothing is released as "kubectl"`},
		"UnknownPlatform": {reason: "a typing error must not release less", binaries: "all", platforms: "linux/amd64", wantErr: `nothing is released as "linux/amd64"`},
		"Nothing":         {reason: "servers do not run on Windows", binaries: "bursar", platforms: "windows-amd64", wantErr: "bursar is not released for windows-amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := targetsOf(tt.binaries, tt.platforms)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("%s: got %v, want %q", tt.reason, err, tt.wantErr)
				}
				return
			}
			var names []string
			for _, g := range got {
				names = append(names, g.String())
			}
			if diff := cmp.Diff(tt.want, names); diff != "" || err != nil {
				t.Errorf("%s (-want +got): %v\n%s", tt.reason, err, diff)
			}
		})
	}
}

// TestArguments runs builds with wrong arguments: they build nothing.
func TestArguments(t *testing.T) {
	for arguments, want := range map[string]string{
		"":                            "usage:",
		"build":                       "usage:",
		"build c475048-dirty":         "no semantic version",
		"build -parts chart,x v1.0.0": `no part "x"`,
		"build -binaries x v1.0.0":    `nothing is released as "x"`,
	} {
		dist := filepath.Join(t.TempDir(), "dist")
		words := strings.Fields(arguments)
		if len(words) > 1 {
			words = slices.Insert(words, 1, "-dist", dist)
		}
		if err := run(t.Context(), words, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("release %s: got %v, want %q", arguments, err, want)
		}
		if _, err := os.Stat(dist); err == nil {
			t.Errorf("release %s made %s", arguments, dist)
		}
	}
}

// TestLicenses checks a build for code under licences other than the allowed ones.
func TestLicenses(t *testing.T) {
	classify, err := newClassifier()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	htmx, err := os.ReadFile("../../internal/console/web/assets/htmx-LICENSE.txt")
	if err != nil {
		t.Fatal(err)
	}
	components := []component{
		{name: "apache", texts: []text{{"LICENSE", string(ours)}, {"NOTICE", "Copyright Somebody"}}},
		{name: "htmx", texts: []text{{"htmx-LICENSE.txt", string(htmx)}}},
	}
	if err := classify.all(components); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"Apache-2.0"}, components[0].licenses); diff != "" {
		t.Errorf("licences of Apache's text (-want +got):\n%s", diff)
	}
	agpl, err := assets.ReadLicenseFile("License/AGPL-3.0/license.txt")
	if err != nil {
		t.Fatal(err)
	}
	for reason, tt := range map[string]struct{ content, want string }{
		"no text at all":            {"", "has no licence that is known"},
		"a text that is no licence": {"Ask me.", "has no licence that is known"},
		"terms of another kind":     {string(agpl), "example.com/x v1.0.0 has the licence AGPL-3.0, which is not allowed"},
	} {
		err := classify.all([]component{{name: "example.com/x", version: "v1.0.0", texts: []text{{"LICENSE", tt.content}}}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", reason, err, tt.want)
		}
	}
}

// TestLegalNames finds the texts we must ship, and no others.
func TestLegalNames(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENSE.md": true, "LICENSE.txt": true, "license": true, "LICENCE": true, "COPYING": true, "NOTICE": true, "NOTICE.txt": true,
		"LICENSE-MIT": true, "LICENSE.libyaml": true, "UNLICENSE": true, "PATENTS": true,
		"license.go": false, "LICENSE.docs": false, "README.md": false, "notices": false,
	} {
		if got := legalName.MatchString(name); got != want {
			t.Errorf("%s is a legal text: %v, want %v", name, got, want)
		}
	}
}

// TestNotices checks a shared text: it is there once, with all its components.
func TestNotices(t *testing.T) {
	got := notices([]component{
		{name: "example.com/a", version: "v1.0.0", licenses: []string{"MIT"}, texts: []text{{"LICENSE", "same terms"}}},
		{name: "example.com/b", version: "v2.0.0", licenses: []string{"MIT"}, texts: []text{{"LICENSE", "same terms"}, {"NOTICE", "made by b"}}},
	})
	if strings.Count(got, "same terms") != 1 {
		t.Errorf("the text is not there once:\n%s", got)
	}
	for _, want := range []string{"example.com/a v1.0.0 (MIT)\n", "example.com/a: LICENSE\nexample.com/b: LICENSE\n\nsame terms\n", "example.com/b: NOTICE\n\nmade by b\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the notices lack %q:\n%s", want, got)
		}
	}
}

// TestChanges proves that the chart has the changes of its version.
func TestChanges(t *testing.T) {
	const log = `# Changelog

## [Unreleased]

### Added

- [One thing](docs/one.md),
  in two lines. Details
  of it.

## [1.0.0] - 2026-03-01

### Fixed

- Another thing.
`
	for version, want := range map[string][]change{
		"v1.0.0": {{"fixed", "Another thing."}},
		"v1.1.0": {{"added", "One thing, in two lines."}},
	} {
		if diff := cmp.Diff(want, changesOf(log, version)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}

// TestDefinitions makes sure that the chart names all definitions, each with a description.
func TestDefinitions(t *testing.T) {
	got, err := definitionsOf("../../deploy/crds")
	if err != nil || len(got) < 15 {
		t.Fatalf("got %d definitions: %v", len(got), err)
	}
	for _, d := range got {
		if d.Kind == "" || d.Version == "" || len(d.Description) < 20 {
			t.Errorf("a definition lacks something: %+v", d)
		}
	}
}
