package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const alertsHead = `# Alerts

` + generated + `The chart installs these rules with ` + "`prometheusRule.enabled`" + `. Prometheus without its operator reads the files in
[rules](../../deploy/chart/bursar/rules). An alert fires once its cause has lasted for the time in the second column.
[Scrape](../tasks/scrape.md) explains the metrics and thresholds.

`

// ruleFiles are the files with rules in the chart, with the headings of their sections.
var ruleFiles = []struct{ name, title string }{
	{"quota.yaml", "Quota of consumers"},
	{"bursar.yaml", "Bursar itself"},
}

// label matches a label of an alert in its annotations.
var label = regexp.MustCompile(`\{\{ *\$labels\.(\w+) *\}\}|\{\{ *\$(value)[^}]*\}\}`)

// alertsPage returns a row for each alert of the chart. An alert without a summary is an error.
func alertsPage(root string) (string, error) {
	var page strings.Builder
	page.WriteString(alertsHead)
	for _, file := range ruleFiles {
		path := filepath.Join(root, "deploy/chart/bursar/rules", file.name)
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert               string
					For                 string
					Labels, Annotations map[string]string
				}
			}
		}
		if err := yaml.Unmarshal(content, &rules); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		rows := &table{header: []string{"alert", "for", "severity", "meaning"}}
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				summary := rule.Annotations["summary"]
				if summary == "" {
					return "", fmt.Errorf("%s: alert %s has no summary", path, rule.Alert)
				}
				meaning := label.ReplaceAllString(summary+" "+rule.Annotations["description"], "`$1$2`")
				rows.add(code(rule.Alert), cmp.Or(rule.For, "-"), rule.Labels["severity"], prose(meaning))
			}
		}
		fmt.Fprintf(&page, "## %s\n\n%s", file.title, rows)
	}
	return strings.TrimSuffix(page.String(), "\n"), nil
}
