// Package release makes a release as the workflow does, of one platform, and uses the result.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/test/helm"
)

const (
	root    = "../../../.."
	version = "v0.0.0-campaign"
)

// makeRelease releases with some arguments, and returns the folder of the result.
func makeRelease(t *testing.T, environment []string, arguments ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds a binary")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	all := append([]string{"run", "./hack/release", "build", "-dist", dist, "-ldflags", "-X main.version=" + version}, arguments...)
	command := exec.CommandContext(t.Context(), "go", append(all, version)...)
	command.Dir = root
	command.Env = append(os.Environ(), append([]string{"SOURCE_DATE_EPOCH=1700000000", "KO_DOCKER_REPO="}, environment...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("release: %v\n%s", err, out)
	}
	return dist
}

// TestArchives releases the server, the plugin and the chart, and uses them.
func TestArchives(t *testing.T) {
	name := "kubectl-bursar-" + runtime.GOOS + "-" + runtime.GOARCH
	dist := makeRelease(t, nil, "-binaries", "bursar,kubectl-bursar", "-platforms", runtime.GOOS+"-"+runtime.GOARCH, "-parts", "archives,chart")
	files := unpack(t, open(t, filepath.Join(dist, name+".tar.gz")))
	for file, want := range map[string]string{
		"LICENSE":                 "Apache License",
		"NOTICE":                  "The Bursar Authors",
		"THIRD_PARTY_NOTICES.txt": "k8s.io/client-go v",
	} {
		if !strings.Contains(files[file], want) {
			t.Errorf("%s of the archive lacks %q", file, want)
		}
	}
	if out, err := exec.CommandContext(t.Context(), install(t, files, "kubectl-bursar"), "version").CombinedOutput(); err != nil || !strings.Contains(string(out), version) {
		t.Errorf("the binary says %q: %v", out, err)
	}
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(files["kubectl-bursar"], strings.TrimSpace(string(goroot))+"/src/") {
		t.Error("the binary holds paths of the machine that built it")
	}

	document, err := spdxjson.Read(bytes.NewReader(open(t, filepath.Join(dist, name+".spdx.json"))))
	if err != nil {
		t.Fatalf("the bill of materials is not SPDX: %v", err)
	}
	purls := map[string]string{}
	for _, p := range document.Packages {
		for _, reference := range p.PackageExternalReferences {
			module, _, _ := strings.Cut(reference.Locator, "@")
			purls[module] = p.PackageLicenseDeclared
		}
	}
	for module, want := range map[string]string{
		"k8s.io/api":                "Apache-2.0",
		"k8s.io/client-go":          "Apache-2.0 AND BSD-3-Clause AND MIT", // with forks of code of others
		"go.etcd.io/etcd/server/v3": "",                                    // not in the plugin
	} {
		if got := purls["pkg:golang/"+module]; got != want {
			t.Errorf("the bill of materials has the licence %q for %s, want %q", got, module, want)
		}
	}
	server := "bursar-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	checkSums(t, dist, server, name+".tar.gz", name+".spdx.json", "bursar-0.0.0-campaign.tgz")
	checkServer(t, unpack(t, open(t, filepath.Join(dist, server))))
	checkChart(t, filepath.Join(dist, "bursar-0.0.0-campaign.tgz"))
}

// install installs a binary of an archive, and returns its path.
func install(t *testing.T, files map[string]string, name string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(binary, []byte(files[name]), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return binary
}

// checkServer runs the quickstart with the server of an archive, and nothing else.
func checkServer(t *testing.T, files map[string]string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), root+"/examples/quickstart/run.sh", install(t, files, "bursar")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "exceeded quota: Project quota of Organization acme") {
		t.Errorf("the quickstart with the released server: %v\n%s", err, out)
	}
}

// checkSums holds the list of checksums to the files. The list has to name them.
func checkSums(t *testing.T, dist string, names ...string) {
	t.Helper()
	want := map[string]bool{}
	for _, name := range names {
		want[name] = true
	}
	for line := range strings.Lines(string(open(t, filepath.Join(dist, "checksums.txt")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256(open(t, filepath.Join(dist, name)))); got != sum {
			t.Errorf("%s has the checksum %s, want %s", name, got, sum)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("checksums.txt lacks %s", name)
	}
}

// checkChart renders the packed chart with its own defaults, and reads it as Artifact Hub would.
func checkChart(t *testing.T, path string) {
	t.Helper()
	rendered, err := helm.Run(t, "", "template", "bursar", path, "--kube-version", "1.36.0")
	if err != nil {
		t.Fatal(err)
	}
	if image := "ghcr.io/bursar/bursar:" + version; !strings.Contains(rendered, image) {
		t.Errorf("the chart does not use %s", image)
	}
	files := unpack(t, open(t, path))
	if files["bursar/LICENSE"] == "" || files["bursar/crds/quota.miloapis.com_resourcegrants.yaml"] == "" {
		t.Error("the chart lacks its licence or the definitions")
	}
	var chart struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	if err := yaml.Unmarshal([]byte(files["bursar/Chart.yaml"]), &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != "0.0.0-campaign" || chart.AppVersion != version {
		t.Errorf("the chart has the versions %s and %s", chart.Version, chart.AppVersion)
	}
	for annotation, want := range map[string]string{
		"category": "skip-prediction", "license": "Apache-2.0", "links": "SECURITY.md", "changes": "kind: added",
		"crds": "name: resourcegrants.quota.miloapis.com", "images": "ghcr.io/bursar/bursar:" + version, "prerelease": "true",
	} {
		content := chart.Annotations["artifacthub.io/"+annotation]
		var parsed any
		if err := yaml.Unmarshal([]byte(content), &parsed); err != nil || !strings.Contains(content, want) {
			t.Errorf("the annotation %s lacks %q: %v\n%s", annotation, want, err, content)
		}
	}
}

func open(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// unpack returns the files of a tar archive, compressed or not.
func unpack(t *testing.T, content []byte) map[string]string {
	t.Helper()
	var from io.Reader = bytes.NewReader(content)
	if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		compressed, err := gzip.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		from = compressed
	}
	files := map[string]string{}
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		of, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(of)
	}
}
