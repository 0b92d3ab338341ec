package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const metricsHead = `# Metrics

` + generated + `Each metric that Bursar serves at ` + "`/metrics`" + `, for queries and alerts. [Metrics of quota
usage](../tasks/scrape.md) explains how to scrape them, and the series of each replica. The libraries of Bursar add
metrics of Go, of the process and of controller-runtime; a standalone server also has those of the API server.

`

// metric is the declaration of a metric in the code.
type metric struct {
	name, kind, help string
	labels           []string
}

func metricsPage(root string) (string, error) {
	sources, err := parseBelow(filepath.Join(root, "internal"))
	if err != nil {
		return "", err
	}
	var all []metric
	for _, s := range sources {
		found, err := metricsOf(s)
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	var page strings.Builder
	page.WriteString(metricsHead)
	for _, section := range []struct{ title, prefix string }{{"Quota of consumers", "quota_"}, {"Bursar itself", "bursar_"}} {
		rows := &table{header: []string{"metric", "type", "unit", "labels", "meaning"}}
		for _, m := range all {
			if strings.HasPrefix(m.name, section.prefix) {
				rows.add(code(m.name), m.kind, unitOf(m), labels(m), prose(sentence(m.help)))
			}
		}
		fmt.Fprintf(&page, "## %s\n\n%s", section.title, rows)
	}
	return strings.TrimRight(page.String(), "\n") + "\n", nil
}

func labels(m metric) string {
	all := make([]string, len(m.labels))
	for i, label := range m.labels {
		all[i] = code(label)
	}
	return strings.Join(all, ", ")
}

// units are the units of metrics by the ends of their names, the longest first.
var units = []struct{ suffix, unit string }{
	{"_timestamp_seconds", "Unix time, in seconds"},
	{"_seconds", "seconds"},
	{"_bytes", "bytes"},
	{"_bytes_max", "bytes"},
	{"_ratio", "ratio"},
	{"_display_units", "the label `unit`"},
}

// unitOf returns the unit of a metric: that of its name, or the base unit in its help, or a number of things.
func unitOf(m metric) string {
	for _, u := range units {
		if strings.HasSuffix(m.name, u.suffix) {
			return u.unit
		}
	}
	if strings.Contains(m.help, "base unit") {
		return "base units"
	}
	if strings.HasPrefix(m.help, "1 ") {
		return "0 or 1"
	}
	return "number"
}

// constructor is a call that makes a metric: its type, and whether labels follow the options.
var constructor = regexp.MustCompile(`^prometheus\.New(Counter|Gauge|Histogram|Summary)(Vec|Func)?$`)

// metricsOf returns the metrics of a package. A metric without a constant name or help is an error.
func metricsOf(s *source) ([]metric, error) {
	var all []metric
	var failed error
	for _, file := range s.files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			m, err := s.metric(call)
			if err != nil {
				failed = cmp.Or(failed, fmt.Errorf("package %s: %s: %w", file.Name.Name, nameOf(call.Fun), err))
			} else if m != nil {
				all = append(all, *m)
			}
			return true
		})
	}
	return all, failed
}

// metric returns the metric of a call, or nil.
func (s *source) metric(call *ast.CallExpr) (*metric, error) {
	m, err := &metric{}, error(nil)
	name := nameOf(call.Fun)
	if found := constructor.FindStringSubmatch(name); found != nil {
		m.kind = strings.ToLower(found[1])
		if err = s.readOptions(m, call.Args[0]); err == nil && found[2] == "Vec" {
			m.labels, err = s.texts(call.Args[1])
		}
	} else if name == "prometheus.NewDesc" {
		err = s.readDescription(m, call.Args)
	} else {
		return nil, nil
	}
	switch {
	case err != nil:
		return nil, err
	case m.name == "" || strings.TrimSpace(m.help) == "":
		return nil, fmt.Errorf("metric %q has no name or no help", m.name)
	}
	return m, nil
}

// readOptions reads the name and the help from the options of a metric.
func (s *source) readOptions(m *metric, options ast.Expr) error {
	literal, ok := options.(*ast.CompositeLit)
	if !ok {
		return errNotConstant
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return errNotConstant
		}
		var err error
		switch nameOf(pair.Key) {
		case "Name":
			m.name, err = s.text(pair.Value)
		case "Help":
			m.help, err = s.text(pair.Value)
		case "ConstLabels":
			for _, label := range pair.Value.(*ast.CompositeLit).Elts {
				var key string
				if key, err = s.text(label.(*ast.KeyValueExpr).Key); err == nil {
					m.labels = append(m.labels, key)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readDescription reads a metric made again for each scrape.
func (s *source) readDescription(m *metric, arguments []ast.Expr) error {
	var err error
	if m.name, err = s.text(arguments[0]); err != nil {
		return err
	}
	if m.help, err = s.text(arguments[1]); err != nil {
		return err
	}
	if m.labels, err = s.texts(arguments[2]); err != nil {
		return err
	}
	m.kind, err = s.kindOf(m.name)
	return err
}

// kindOf returns the type of a metric made again for each scrape. The calls have the type, not the description: a call
// names the description of a histogram, and all others of a package have one type.
func (s *source) kindOf(metric string) (string, error) {
	kinds := map[string]bool{}
	isHistogram := false
	for _, file := range s.files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.CallExpr:
				isHistogram = isHistogram || nameOf(n.Fun) == "prometheus.MustNewConstHistogram" && s.describes(n.Args[0], metric)
			case *ast.SelectorExpr:
				if value, ok := strings.CutSuffix(nameOf(n), "Value"); ok && strings.HasPrefix(value, "prometheus.") {
					kinds[strings.ToLower(strings.TrimPrefix(value, "prometheus."))] = true
				}
			}
			return true
		})
	}
	if isHistogram {
		return "histogram", nil
	}
	if len(kinds) != 1 {
		return "", fmt.Errorf("metric %s: the package makes metrics of %d types; it has to be one", metric, len(kinds))
	}
	for kind := range kinds {
		return kind, nil
	}
	return "", nil
}

// describes reports whether an expression is the description of a metric.
func (s *source) describes(expression ast.Expr, metric string) bool {
	call, ok := s.values[nameOf(expression)].(*ast.CallExpr)
	if !ok || nameOf(call.Fun) != "prometheus.NewDesc" {
		return false
	}
	name, err := s.text(call.Args[0])
	return err == nil && name == metric
}
