package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// field is a field of a kind, under its path.
type field struct {
	path     string
	schema   *apiextensionsv1.JSONSchemaProps
	required bool
}

// writeField writes a field and its inner fields, each as an item of one list.
func writeField(page *bytes.Buffer, f field) {
	need := "optional"
	if f.required {
		need = "**required**"
	}
	fmt.Fprintf(page, "- **%s** (%s, %s)", code(f.path), typeOf(f.schema), need)
	if f.schema.Description != "" {
		page.WriteString(":")
		for line := range strings.Lines(escape(f.schema.Description)) {
			page.WriteString(strings.TrimRight("\n  "+strings.TrimRight(line, "\n"), " "))
		}
	}
	page.WriteString("\n")
	writeRules(page, "  ", rulesOf(f.schema))
	path, inner := f.path, f.schema
	for element := elementOf(inner); element != nil; element = elementOf(inner) {
		path, inner = path+suffixOf(inner), element
		writeRules(page, "  ", prefixed("each: ", rulesOf(element)))
	}
	for _, name := range slices.Sorted(maps.Keys(inner.Properties)) {
		property := inner.Properties[name]
		writeField(page, field{path: path + "." + name, schema: &property, required: slices.Contains(inner.Required, name)})
	}
}

func prefixed(prefix string, rules []string) []string {
	for i := range rules {
		rules[i] = prefix + rules[i]
	}
	return rules
}

func writeRules(page *bytes.Buffer, indent string, rules []string) {
	for _, rule := range rules {
		fmt.Fprintf(page, "%s- %s\n", indent, rule)
	}
}

// elementOf returns the schema of the elements of a list or map, or nil.
func elementOf(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	switch {
	case schema.Items != nil:
		return schema.Items.Schema
	case schema.AdditionalProperties != nil:
		return schema.AdditionalProperties.Schema
	}
	return nil
}

func suffixOf(schema *apiextensionsv1.JSONSchemaProps) string {
	if schema.Items != nil {
		return "[]"
	}
	return "{}"
}

func typeOf(schema *apiextensionsv1.JSONSchemaProps) string {
	element := elementOf(schema)
	switch {
	case element != nil && schema.Items != nil:
		return "list of " + typeOf(element)
	case element != nil:
		return "map of " + typeOf(element)
	case schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields:
		return "anything"
	case schema.XIntOrString:
		return "integer or string"
	case schema.Format != "":
		return schema.Type + " (" + schema.Format + ")"
	}
	return schema.Type
}

// special are the characters in prose with a meaning in Markdown.
var special = strings.NewReplacer(`*`, `\*`, `_`, `\_`, `<`, `&lt;`, `|`, `\|`)

// escape writes prose so that Markdown renders it unchanged. It leaves out the parts between backticks.
func escape(text string) string {
	parts := strings.Split(strings.TrimSpace(text), "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = special.Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}

// code writes text as code. Backticks in it get a longer fence around it.
func code(text string) string {
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

func codes(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = code(text)
	}
	return strings.Join(all, ", ")
}
