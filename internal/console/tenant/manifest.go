package tenant

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

// objectsMax bounds the objects of a manifest: the page asks the API server about each.
const objectsMax = 100

// document is a part of a manifest between two separators.
type document struct {
	text string
	// line is the number of its first line, from 1 on.
	line int
}

// placed is an object and the line where its document begins.
type placed struct {
	object *unstructured.Unstructured
	line   int
}

// problem is an error in a document.
type problem struct {
	Line int
	Text string
}

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

// aliasIn returns the line of an alias in a document, or 0 without one. A few aliases can stand for gigabytes of
// expansion. It returns 0 for an unparsable document: another function reports its error.
func aliasIn(text string) (line int) {
	var root yamlv3.Node
	if yamlv3.Unmarshal([]byte(text), &root) != nil {
		return 0
	}
	nodes := []*yamlv3.Node{&root}
	for len(nodes) > 0 {
		node := nodes[len(nodes)-1]
		if node.Kind == yamlv3.AliasNode {
			return node.Line
		}
		nodes = append(nodes[:len(nodes)-1], node.Content...)
	}
	return 0
}

var comment = regexp.MustCompile(`(?m)^\s*#.*$`)

func withoutComments(text string) string { return comment.ReplaceAllString(text, "") }

// objectsIn returns the objects of a manifest, including those in lists, and the problems of documents without any.
func objectsIn(manifest string) (objects []placed, problems []problem) {
	for _, d := range documentsOf(manifest) {
		found, err := d.objects()
		if err != nil {
			problems = append(problems, *err)
			continue
		}
		for _, object := range found {
			objects = append(objects, placed{object, d.line})
		}
	}
	return objects, problems
}

// yamlLine matches the place in an error about YAML, from the beginning of the document on.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// objects returns the object of a document, or those of a list.
func (d *document) objects() ([]*unstructured.Unstructured, *problem) {
	if line := aliasIn(d.text); line > 0 {
		return nil, &problem{Line: d.line + line - 1, Text: "a YAML alias (*name) is not accepted here: write the value itself"}
	}
	content := map[string]any{}
	inJSON, err := yaml.YAMLToJSONStrict([]byte(d.text))
	if err == nil {
		err = utiljson.Unmarshal(inJSON, &content) // integers stay integers, as policies see them
	}
	if err != nil {
		f := &problem{Line: d.line, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
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
		return nil, &problem{Line: d.line, Text: "apiVersion or kind is missing: every object needs both"}
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
		return nil, &problem{Line: d.line, Text: err.Error()}
	}
	return listed, nil
}
