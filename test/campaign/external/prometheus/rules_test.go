package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/test/helm"
)

const (
	chart = "../../../../deploy/chart/bursar"
	// The rules of the chart in Prometheus' own format.
	quotaRules, ownRules = chart + "/rules/quota.yaml", chart + "/rules/bursar.yaml"
)

// rules are the rules installed by the chart.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert string `json:"alert"`
			Expr  string `json:"expr"`
		} `json:"rules"`
	} `json:"groups"`
}

// TestRules runs the tests in testdata. There is one for every alert of the chart: it fires, and it does not fire.
func TestRules(t *testing.T) {
	rendered, err := helm.Run(t, "prometheusRule: {enabled: true}", "template", "bursar", chart, "--namespace", "quota", "--kube-version", "1.36.0", "--show-only", "templates/monitoring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var resource struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(rendered), &resource); err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(resource.Spec)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), content)
	promtool(t, "check", "rules", filepath.Join(dir, "rules.yaml"), quotaRules, ownRules)

	tests, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}
	var all strings.Builder
	for _, name := range tests {
		test, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(test)
		write(t, filepath.Join(dir, filepath.Base(name)), test)
		promtool(t, "test", "rules", filepath.Join(dir, filepath.Base(name)))
	}
	var installed rules
	if err := yaml.Unmarshal(content, &installed); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range installed.Groups {
		for _, rule := range group.Rules {
			alerts++
			for what, count := range map[string]int{
				"fires":         strings.Count(all.String(), "alertname: "+rule.Alert+"\n    exp_alerts:"),
				"does not fire": strings.Count(all.String(), "alertname: "+rule.Alert+", exp_alerts: []"),
			} {
				if count == 0 {
					t.Errorf("no test says when %s %s", rule.Alert, what)
				}
			}
		}
	}
	if alerts < 16 {
		t.Errorf("there are %d alerts", alerts)
	}
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// promtool runs promtool. The run has to succeed.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	binary, err := program("promtool")
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), binary, arguments...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
}
