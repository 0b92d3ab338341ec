package chart

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const kustomizations = "../../../../deploy/kustomize"

var update = flag.Bool("update", false, "make the files in deploy/kustomize from the chart")

// TestKustomize proves that kustomize makes the same objects as Helm, with default values and in the default namespace.
func TestKustomize(t *testing.T) {
	tests := map[string]struct {
		reason, values, folder string
		// base is a folder whose objects are missing from the file of this one.
		base string
		file string
	}{
		"Base":        {"both are ways to install the same thing", "", "base", "", "bursar.yaml"},
		"CertManager": {"the certificate of another source needs objects and a configuration", "certificate: {source: CertManager}", "overlays/cert-manager", "base", "certificate.yaml"},
	}
	for _, name := range []string{"Base", "CertManager"} { // the second derives from the first
		tt := tests[name]
		t.Run(name, func(t *testing.T) {
			want := fromChart(t, tt.values)
			if *update {
				except := map[string]string{}
				if tt.base != "" {
					except = fromKustomize(t, tt.base)
				}
				writeFiles(t, tt.folder, tt.file, want, except)
			}
			if diff := cmp.Diff(want, fromKustomize(t, tt.folder)); diff != "" {
				t.Errorf("%s: %s is out of step, run go test ./test/campaign/external/chart -run TestKustomize -update (-chart +kustomize):\n%s", tt.reason, tt.folder, diff)
			}
		})
	}
}

// notByHelm are lines of the chart's objects only true of objects installed by Helm.
var notByHelm = regexp.MustCompile(`(?m)^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by|checksum/configuration): .*\n`)

var separator = regexp.MustCompile(`(?m)^---\n`)

// configurationName is the name of the ConfigMap with the hash by kustomize.
var configurationName = regexp.MustCompile(`\bname: bursar-config-[a-z0-9]{10}\n`)

// fromChart returns the documents rendered by Helm, without Helm's own lines, by kind and name.
func fromChart(t *testing.T, values string) map[string]string {
	t.Helper()
	output, err := run(t, values, "template", "bursar", chart, "--kube-version", "1.36.0", "--namespace", "bursar-system")
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, notByHelm.ReplaceAllString(output, ""))
}

// fromKustomize returns the documents made by kustomize of a folder, by kind and name.
func fromKustomize(t *testing.T, folder string) map[string]string {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(kustomizations, folder))
	if err != nil {
		t.Fatal(err)
	}
	output, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, configurationName.ReplaceAllString(string(output), "name: bursar-config\n"))
}

// documents returns YAML documents in one form, for comparisons.
func documents(t *testing.T, output string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, document := range separator.Split(output, -1) {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(object) == 0 {
			continue
		}
		normal, err := yaml.Marshal(withoutEmpty(object))
		if err != nil {
			t.Fatal(err)
		}
		key := object["kind"].(string) + "/" + object["metadata"].(map[string]any)["name"].(string)
		if _, twice := found[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		found[key] = string(normal)
	}
	return found
}

// withoutEmpty drops annotations without content. The chart leaves them where it has none.
func withoutEmpty(object map[string]any) map[string]any {
	for key, value := range object {
		switch inner, isMap := value.(map[string]any); {
		case key == "annotations" && (value == nil || isMap && len(inner) == 0):
			delete(object, key)
		case isMap:
			withoutEmpty(inner)
		}
	}
	return object
}

// writeFiles writes the configuration of a folder, and the documents missing from its base.
func writeFiles(t *testing.T, folder, file string, wanted, base map[string]string) {
	t.Helper()
	var content bytes.Buffer
	content.WriteString("# Made from the Helm chart by: go test ./test/campaign/external/chart -run TestKustomize -update\n")
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if key == "ConfigMap/bursar-config" || base[key] == wanted[key] {
			continue
		}
		content.WriteString("---\n" + wanted[key])
	}
	var configuration corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(wanted["ConfigMap/bursar-config"]), &configuration); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{file: content.String(), "config.yaml": configuration.Data["config.yaml"]} {
		if err := os.WriteFile(filepath.Join(kustomizations, folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
