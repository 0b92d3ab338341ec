package main

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

const chartHead = `## The values of the chart

` + "`helm install`" + ` takes these by ` + "`--set NAME=VALUE`" + ` or in a file. [Install](../tasks/install.md) shows them at work.

`

// chartValues returns a row for each value of a chart. A value without a comment of its own or of the values around it
// is an error.
func chartValues(path string) (*table, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	rows := &table{header: []string{"value", "default", "meaning"}}
	if len(document.Content) == 0 {
		return rows, nil
	}
	return rows, addValues(rows, "", document.Content[0])
}

// addValues adds the rows of a mapping. Inner mappings have rows for their values, except for mappings in one line.
func addValues(rows *table, path string, mapping *yaml.Node) error {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		meaning, stated := splitDefault(commentOf(key, value))
		name := path + key.Value
		hasInner := value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0
		if meaning == "" && !hasInner {
			return fmt.Errorf("value %s has no comment that explains it", name)
		}
		if meaning != "" || !hasInner {
			shown := prose(stated)
			if shown == "" && !hasInner {
				text, err := inLine(value)
				if err != nil {
					return fmt.Errorf("value %s: %w", name, err)
				}
				shown = code(text)
			}
			rows.add(code(name), shown, prose(sentence(meaning)))
		}
		if hasInner {
			if err := addValues(rows, name+".", value); err != nil {
				return err
			}
		}
	}
	return nil
}

// commentOf returns the comments of a value, without their marks.
func commentOf(key, value *yaml.Node) string {
	var all []string
	for _, comment := range []string{key.HeadComment, key.LineComment, value.LineComment} {
		for line := range strings.Lines(comment) {
			all = append(all, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
		}
	}
	return strings.Join(all, " ")
}

// inLine writes a value in one line.
func inLine(value *yaml.Node) (string, error) {
	if value.Kind == yaml.ScalarNode {
		if value.Value == "" {
			return `""`, nil
		}
		return value.Value, nil
	}
	plain := *value
	plain.HeadComment, plain.LineComment, plain.FootComment = "", "", ""
	text, err := yaml.Marshal(&plain)
	return strings.TrimSpace(string(text)), err
}
