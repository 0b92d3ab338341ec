// Package manifest reads Kubernetes objects from YAML or JSON, with the lines where they begin and where a text is
// wrong. Commands and the console import it.
package manifest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// document is a part of a manifest between two separators.
type document struct {
	text string
	// line is the number of its first line, from 1 on.
	line int
}

// Object is an object and the line where its document begins, from 1 on.
type Object struct {
	*unstructured.Unstructured
	Line int
}

// Problem is an error in a document, with its line, from 1 on.
type Problem struct {
	Line int
	Text string
}

func (p Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Text) }

// Aliases says what happens to the aliases of YAML (*name).
type Aliases bool

// A few aliases can stand for gigabytes, so that a server refuses those of its clients.
const (
	ExpandAliases Aliases = false
	RefuseAliases Aliases = true
)

// separator matches the line between two documents.
var separator = regexp.MustCompile(`^---(\s|$)`)

// documentsOf splits a manifest into its documents, without the empty ones.
func documentsOf(manifest string) []document {
	var documents []document
	lines := strings.Split(strings.ReplaceAll(manifest, "\r\n", "\n"), "\n")
	begin := 0
	end := func(n int) {
		text := strings.Join(lines[begin:n], "\n") + "\n"
		if isContent := strings.ContainsFunc(withoutComments(text), func(r rune) bool { return r > ' ' }); isContent {
			documents = append(documents, document{text: text, line: begin + 1})
		}
		begin = n + 1
	}
	for i, line := range lines {
		if separator.MatchString(line) {
			end(i)
		}
	}
	end(len(lines))
	return documents
}

// aliasLine returns the line of an alias in a document, or 0 without one. It returns 0 for an unparsable document:
// another function reports its error.
func (d *document) aliasLine() int {
	var root yamlv3.Node
	if yamlv3.Unmarshal([]byte(d.text), &root) != nil {
		return 0
	}
	nodes := []*yamlv3.Node{&root}
	for len(nodes) > 0 {
		node := nodes[len(nodes)-1]
		if node.Kind == yamlv3.AliasNode {
			return d.line + node.Line - 1
		}
		nodes = append(nodes[:len(nodes)-1], node.Content...)
	}
	return 0
}

var comment = regexp.MustCompile(`(?m)^\s*#.*$`)

func withoutComments(text string) string { return comment.ReplaceAllString(text, "") }

// Parse returns the objects of a manifest, including those in lists, and the problems of documents without any.
func Parse(manifest string, aliases Aliases) (objects []Object, problems []Problem) {
	for _, d := range documentsOf(manifest) {
		if line := d.aliasLine(); aliases == RefuseAliases && line > 0 {
			problems = append(problems, Problem{Line: line, Text: "a YAML alias (*name) is not accepted here: write the value itself"})
			continue
		}
		found, err := d.objects()
		if err != nil {
			problems = append(problems, *err)
			continue
		}
		for _, object := range found {
			objects = append(objects, Object{object, d.line})
		}
	}
	return objects, problems
}

// yamlLine matches the place in an error about YAML, from the beginning of the document on.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// objects returns the object of a document, or those of a list.
func (d *document) objects() ([]*unstructured.Unstructured, *Problem) {
	content := map[string]any{}
	inJSON, err := yaml.YAMLToJSONStrict([]byte(d.text))
	if err == nil {
		err = utiljson.Unmarshal(inJSON, &content) // integers stay integers, as policies see them
	}
	if err != nil {
		f := &Problem{Line: d.line, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
		if match := yamlLine.FindStringSubmatch(f.Text); match != nil {
			if inDocument, err := strconv.Atoi(match[1]); err == nil && inDocument > 0 {
				// For an unexpected end, YAML reports a line after the last.
				lines := strings.Count(strings.TrimRight(d.text, "\n"), "\n") + 1
				f.Line = d.line + min(inDocument, lines) - 1
				f.Text = strings.Replace(f.Text, match[0], "", 1)
			}
		}
		if strings.Contains(f.Text, "cannot unmarshal") {
			f.Text = "this is no object: it needs apiVersion, kind and metadata"
		}
		return nil, f
	}
	object := &unstructured.Unstructured{Object: content}
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		return nil, &Problem{Line: d.line, Text: "apiVersion or kind is missing: every object needs both"}
	}
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, nil
	}
	var listed []*unstructured.Unstructured
	err = object.EachListItem(func(item runtime.Object) error {
		each, isObject := item.(*unstructured.Unstructured)
		if !isObject || each.GetAPIVersion() == "" || each.GetKind() == "" {
			return fmt.Errorf("item %d of the list is no object with apiVersion and kind", len(listed)+1)
		}
		listed = append(listed, each)
		return nil
	})
	if err != nil {
		return nil, &Problem{Line: d.line, Text: err.Error()}
	}
	return listed, nil
}
