package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const root = "../.."

func TestPagesAreUpToDate(t *testing.T) {
	for name, make := range pages {
		t.Run(name, func(t *testing.T) {
			page, err := make(root)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := os.ReadFile(filepath.Join(root, folder, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(stored), page); diff != "" {
				t.Errorf("docs/reference/%s is out of date: run make generate (-stored +generated):\n%s", name, diff)
			}
			if empty := regexp.MustCompile(`(?m)^\|.*\|  \|$`).FindString(page); empty != "" && name != "commands.md" {
				t.Errorf("a row has no meaning: %s", empty)
			}
		})
	}
}

// TestEveryFlagHasARow looks for the flags of all commands of all binaries.
func TestEveryFlagHasARow(t *testing.T) {
	page, err := commandsPage(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, program := range programs() {
		for _, command := range runnable(program) {
			title := "\n## bursar " + path(command) + "\n"
			if path(command) == "completion" {
				title = "\n## kubectl bursar completion\n"
			}
			_, section, found := strings.Cut(page, title)
			if !found {
				t.Errorf("the page has no section for %s of %s", path(command), name)
				continue
			}
			section, _, _ = strings.Cut(section, "\n## ")
			for _, flag := range ownFlags(command) {
				if !strings.Contains(section, code("--"+flag.Name)) && !strings.Contains(section, "all [flags of a server]") {
					t.Errorf("the section of %s does not name --%s", command.CommandPath(), flag.Name)
				}
			}
		}
	}
}

func TestUnexplained(t *testing.T) {
	write := func(t *testing.T, name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sourceOf := func(t *testing.T, content string) *source {
		s, err := parse(filepath.Dir(write(t, "a.go", content)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, tc := range map[string]struct {
		make func(t *testing.T) error
		want string
	}{
		"constant": {func(t *testing.T) error {
			_, err := constantsOf(sourceOf(t, "package a\nconst LabelX = \"x\"\n"), "Label")
			return err
		}, "LabelX has no comment"},
		"metric": {func(t *testing.T) error {
			_, err := metricsOf(sourceOf(t, "package a\nvar m = prometheus.NewCounter(prometheus.CounterOpts{Name: \"a_total\"})\n"))
			return err
		}, `metric "a_total" has no name or no help`},
		"reason of no kind": {func(t *testing.T) error {
			return writeConditions(&strings.Builder{}, sourceOf(t, "package a\n// ReasonLost is lost.\nconst ReasonLost = \"Lost\"\n"))
		}, "ReasonLost is in no comment"},
		"event without a type": {func(t *testing.T) error {
			return addEvents(&table{}, sourceOf(t, "package a\n// EventLost is lost.\nconst EventLost = \"Lost\"\n"))
		}, "EventLost does not begin with its type"},
		"field": {func(t *testing.T) error {
			s := sourceOf(t, "package a\ntype T struct {\n\tA string `json:\"a\"`\n}\n")
			return s.addFields(&table{}, "", s.structure("T"))
		}, "field a has no comment"},
		"value": {func(t *testing.T) error {
			_, err := chartValues(write(t, "values.yaml", "a:\n  b: 1\n"))
			return err
		}, "value a.b has no comment"},
		"flag": {func(*testing.T) error {
			command := &cobra.Command{Use: "a", Short: "A", Example: "a"}
			command.Flags().Bool("b", false, "")
			return writeCommand(&strings.Builder{}, command, nil)
		}, "the flag --b has no explanation"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.make(t); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	code := `package a
const prefix = "a_"
var by = []string{"who"}
var d = prometheus.NewDesc(prefix+"bytes", "Size.", slices.Concat(by, []string{"what"}), nil)
var h = prometheus.NewDesc("a_ratio", "Parts.", nil, nil)
func collect() {
	prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1)
	prometheus.MustNewConstHistogram(h, 1, 1, nil)
	of := []string{"c"}
	prometheus.NewCounterVec(prometheus.CounterOpts{Name: "a_total", Help: "All " + "of it."}, of)
}
`
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := parse(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := metricsOf(s)
	if err != nil {
		t.Fatal(err)
	}
	want := []metric{
		{"a_bytes", "gauge", "Size.", []string{"who", "what"}}, {"a_ratio", "histogram", "Parts.", nil}, {"a_total", "counter", "All of it.", []string{"c"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(metric{})); diff != "" {
		t.Errorf("the metrics differ (-want +got):\n%s", diff)
	}
}

// A key is a literal, or a constant with the group and a literal.
var (
	wholeKey = regexp.MustCompile(`"((?:quota\.miloapis\.com|(?:quota\.)?openmcp\.cloud)/[a-z-]+)"`)
	keyOf    = regexp.MustCompile(`\b((?:\w+\.)?GroupName|keyPrefix) \+ "(/[a-z-]+)"`)
)

// TestEveryKeyHasARow looks for the labels, annotations and finalizers in all code of the binaries.
func TestEveryKeyHasARow(t *testing.T) {
	page, err := labelsPage(root)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, dir := range []string{"api", "cmd", "deploy", "internal", "sdk"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, key := range keysIn(path, string(content)) {
				if found++; !strings.Contains(page, code(key)) {
					t.Errorf("%s has the key %s, and docs/reference/labels.md does not: declare it in the metadata.go of its API", path, key)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("no code has any key")
	}
}

func keysIn(path, text string) []string {
	group := quotav1alpha1.GroupName
	if strings.Contains(path, "openmcp") {
		group = openmcpv1alpha1.GroupName
	}
	prefixes := map[string]string{
		"GroupName": group, "keyPrefix": "quota." + group,
		"quotav1alpha1.GroupName": quotav1alpha1.GroupName, "openmcpv1alpha1.GroupName": openmcpv1alpha1.GroupName,
	}
	var all []string
	for _, match := range wholeKey.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	for _, match := range keyOf.FindAllStringSubmatch(text, -1) {
		all = append(all, prefixes[match[1]]+match[2])
	}
	return all
}
