// Package image holds the two recipes for container images to the module and to each other. It builds
// none, since that takes base images from a registry.
package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// only is what the one group of a pattern matches.
func only(t *testing.T, file, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(read(t, file), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d lines like %q, want one", file, len(found), pattern)
	}
	return found[0][1]
}

// The patch version is that of the newest image, and so has what was mended in Go since.
func TestGoVersion(t *testing.T) {
	want := only(t, "go.mod", `^go (\d+\.\d+)`)
	if got := only(t, "Dockerfile", `^FROM --platform=\S+ golang:(\S+) AS build$`); got != want {
		t.Errorf("the Dockerfile builds with Go %s, go.mod says %s", got, want)
	}
}

// TestBuiltAlike proves that it does not matter by which of the ways a binary was built.
func TestBuiltAlike(t *testing.T) {
	var ko struct {
		DefaultBaseImage string
		Builds           []struct {
			ID, Main            string
			Env, Flags, Ldflags []string
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, ".ko.yaml")), &ko); err != nil {
		t.Fatal(err)
	}
	if len(ko.Builds) != 1 {
		t.Fatalf(".ko.yaml has %d builds", len(ko.Builds))
	}
	build := ko.Builds[0]
	type recipe struct {
		Base, Environment, Flags, LinkerFlags, Main string
	}
	recipes := map[string]recipe{
		"ko": {
			ko.DefaultBaseImage, strings.Join(build.Env, " "), strings.Join(build.Flags, " "),
			strings.ReplaceAll(strings.Join(build.Ldflags, " "), "{{.Env.VERSION}}", "VERSION"), build.Main,
		},
		"Dockerfile": {
			only(t, "Dockerfile", `^FROM (gcr\S+)$`), only(t, "Dockerfile", `(CGO_ENABLED=\d)`),
			only(t, "Dockerfile", `go build (\S+) -ldflags`),
			strings.ReplaceAll(only(t, "Dockerfile", `-ldflags "(.*)" -o`), "$VERSION", "VERSION"),
			only(t, "Dockerfile", `-o /bursar (\S+)$`),
		},
	}
	if diff := cmp.Diff(recipes["ko"], recipes["Dockerfile"]); diff != "" {
		t.Errorf("the images differ (-ko +Dockerfile):\n%s", diff)
	}
	// The operator alone has no API server whose version it could tell.
	makefile := strings.ReplaceAll(only(t, "Makefile", `^LDFLAGS = (.*) \$\(SERVER_VERSION\)$`), "$(VERSION)", "VERSION")
	if makefile != recipes["Dockerfile"].LinkerFlags {
		t.Errorf("the Makefile links with %q, the Dockerfile with %q", makefile, recipes["Dockerfile"].LinkerFlags)
	}
}

// TestOperatorAlone proves that the image does not hold what only a standalone server needs, which is more than half
// of it.
func TestOperatorAlone(t *testing.T) {
	packages, err := exec.Command("go", "list", "-deps", "../../cmd/bursar-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"k8s.io/kubernetes/", "k8s.io/apiserver/pkg/server", "k8s.io/kubectl/", "go.etcd.io/"} {
		if strings.Contains(string(packages), unwanted) {
			t.Errorf("the operator is built from %s", unwanted)
		}
	}
}

// TestFoldersOfTheBinary proves that the build in a container gets what it needs.
func TestFoldersOfTheBinary(t *testing.T) {
	ignored := strings.Split(read(t, ".dockerignore"), "\n")
	for _, pattern := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join("../..", pattern), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, imported := range regexp.MustCompile(`"github.com/bursar/bursar/(\w+)/`).FindAllStringSubmatch(string(content), -1) {
				if !slices.Contains(ignored, "!"+imported[1]) {
					t.Errorf("%s imports from %s, which .dockerignore leaves out", path, imported[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
