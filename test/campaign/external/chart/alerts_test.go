package chart

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const sources = "../../../../internal"

// TestAlertsKnowTheirMetrics proves that Bursar has every metric in an alert, with the values of its labels.
func TestAlertsKnowTheirMetrics(t *testing.T) {
	output, err := run(t, "prometheusRule: {enabled: true}", "template", "bursar", chart, "--kube-version", "1.36.0", "--show-only", "templates/monitoring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(output), &rule); err != nil {
		t.Fatal(err)
	}
	code := readSources(t)
	metric := regexp.MustCompile(`\b((?:bursar|quota)_[a-z_]+)(\{[^}]*\})?`)
	value := regexp.MustCompile(`=("[^"]*")`)
	seen := 0
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			for _, used := range metric.FindAllStringSubmatch(r.Expr, -1) {
				seen++
				name := strings.TrimSuffix(strings.TrimSuffix(used[1], "_count"), "_bucket")
				if !strings.Contains(code, `Name: "`+name+`"`) && !strings.Contains(code, `NewDesc("`+name+`"`) {
					t.Errorf("alert %s: there is no metric %s", r.Alert, used[1])
				}
				for _, label := range value.FindAllStringSubmatch(used[2], -1) {
					if !strings.Contains(code, label[1]) && !strings.HasPrefix(used[2], "{le=") {
						t.Errorf("alert %s: no label of %s has the value %s", r.Alert, used[1], label[1])
					}
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d metrics were found in the alerts", seen)
	}
}

// readSources returns all code of Bursar but its tests.
func readSources(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	err := filepath.WalkDir(sources, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		code.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return code.String()
}
