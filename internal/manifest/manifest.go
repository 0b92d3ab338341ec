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

// Bounds limit what it costs to read a manifest. A server sets all of them for its clients; zero values do not limit.
type Bounds struct {
	// Documents is how many documents are read. They are counted before the first one is decoded.
	Documents int
	// Nodes is how many keys, values, lists and maps a manifest has. A short text can have many of them, and each takes a
	// hundred times its own length in memory.
	Nodes int
	// RejectAliases rejects aliases (*name): a few of them can stand for gigabytes.
	RejectAliases bool
}

// separator matches the line between two documents.
var separator = regexp.MustCompile(`^---(\s|$)`)

// documentsOf splits a manifest into its documents, without the empty ones.
func documentsOf(manifest string) []document {
	var documents []document
	next := document{line: 1}
	begin, isEmpty := 0, true
	finish := func(end int) {
		if !isEmpty {
			next.text = manifest[begin:end]
			documents = append(documents, next)
		}
	}

	line, offset := 0, 0
	for text := range strings.Lines(manifest) {
		line++
		offset += len(text)
		if separator.MatchString(strings.TrimRight(text, "\r\n")) {
			finish(offset - len(text))
			begin, isEmpty, next = offset, true, document{line: line + 1}
		} else if isContent(text) {
			isEmpty = false
		}
	}
	finish(len(manifest))
	return documents
}

// isContent reports whether a line has more than space and a comment.
func isContent(line string) bool {
	line = strings.TrimFunc(line, func(r rune) bool { return r <= ' ' })
	return line != "" && line[0] != '#'
}

// check returns what is not accepted in a document, and the number of nodes in it. It returns no problem for an
// unparsable document: another function reports its error.
func (d *document) check(b Bounds) (nodes int, problem *Problem) {
	var root yamlv3.Node
	if yamlv3.Unmarshal([]byte(d.text), &root) != nil {
		return 0, nil
	}

	open := []*yamlv3.Node{&root}
	for ; len(open) > 0; nodes++ {
		node := open[len(open)-1]
		if node.Kind == yamlv3.AliasNode && b.RejectAliases {
			return nodes, &Problem{Line: d.line + node.Line - 1, Text: "a YAML alias (*name) is not accepted here: write the value itself"}
		}
		open = append(open[:len(open)-1], node.Content...)
	}
	return nodes, nil
}

// Parse returns the objects of a manifest, including those in lists, and the problems of documents without any. Beyond
// the bound on documents, it reads none.
func Parse(manifest string, b Bounds) (objects []Object, problems []Problem) {
	documents := documentsOf(manifest)
	if b.Documents > 0 && len(documents) > b.Documents {
		text := fmt.Sprintf("the manifest has %d documents, and at most %d are read: take parts of it", len(documents), b.Documents)
		return nil, []Problem{{Line: documents[b.Documents].line, Text: text}}
	}

	nodes := 0
	for _, d := range documents {
		if b.RejectAliases || b.Nodes > 0 {
			added, problem := d.check(b)
			if nodes += added; problem == nil && b.Nodes > 0 && nodes > b.Nodes {
				problem = &Problem{Line: d.line, Text: fmt.Sprintf("the manifest has more than %d keys and values up to the end of this document: take parts of it", b.Nodes)}
				return objects, append(problems, *problem)
			}
			if problem != nil {
				problems = append(problems, *problem)
				continue
			}
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
