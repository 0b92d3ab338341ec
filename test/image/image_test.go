// Package image holds the recipe of the container image to that of the archives. It builds no image:
// test/campaign/external/release does.
package image

import (
	"os"
	"os/exec"
	"path/filepath"
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

// koConfig has the content of .ko.yaml.
type koConfig struct {
	DefaultBaseImage string
	Builds           []struct {
		ID, Main            string
		Env, Flags, Ldflags []string
	}
}

// TestBuiltAlike wants the same build of the binary in the image as of the one in the archives.
func TestBuiltAlike(t *testing.T) {
	var got koConfig
	if err := yaml.UnmarshalStrict([]byte(read(t, ".ko.yaml")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Builds) != 1 {
		t.Fatalf(".ko.yaml has %d builds, want one", len(got.Builds))
	}
	build := got.Builds[0]
	if build.Main != "./cmd/bursar-operator" || !strings.HasSuffix(got.DefaultBaseImage, ":nonroot") {
		t.Errorf("ko builds %s on %s", build.Main, got.DefaultBaseImage)
	}
	if diff := cmp.Diff([]string{"{{.Env.LDFLAGS}}"}, build.Ldflags); diff != "" {
		t.Errorf("flags of the linker (-want +got):\n%s", diff)
	}
	recipe := read(t, "hack/release/build.go") + read(t, "hack/release/target.go")
	for _, want := range append(build.Flags, build.Env...) {
		if !strings.Contains(recipe, `"`+want+`"`) {
			t.Errorf("ko builds with %s, hack/release does not", want)
		}
	}
	if len(build.Flags) < 2 || len(build.Env) < 1 {
		t.Errorf("ko builds with the flags %q and the environment %q", build.Flags, build.Env)
	}
}

// TestOperatorAlone proves that the image lacks the parts only for a standalone server. They are more than half of it.
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
