package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// templateName precedes the position in the errors of text/template.
const templateName = "claim"

// textTemplate is a compiled template. It is immutable and safe for concurrent use.
type textTemplate struct {
	source string
	// compiled is set for a Go template, and parts for a text with CEL expressions. A plain text has neither.
	compiled *template.Template
	parts    []templatePart
	uses     uses
	// reads are the fields of the object that the template reads.
	reads []fieldRead
}

// isText reports whether the source is a plain text.
func (t *textTemplate) isText() bool { return t.compiled == nil && t.parts == nil }

// compileTemplate compiles a source of at most templateBytesMax: a plain text, a Go template, or a text with CEL
// expressions in double braces. Text valid as both means the same in both. It returns every error, each with its line
// and column. For syntax errors of a Go template it returns only the first, with its line. Columns count bytes from 1.
func compileTemplate(source string) (*textTemplate, []string) {
	if !strings.Contains(source, "{{") {
		return &textTemplate{source: source}, nil
	}
	compiled, reasons, isGo := compileGoTemplate(source)
	if isGo && (len(reasons) == 0 || !hasVariables(source)) {
		return compiled, reasons
	}
	if compiled, celReasons := compileExpressions(source); compiled != nil || len(celReasons) > 0 {
		return compiled, celReasons
	}
	return nil, reasons
}

// compileGoTemplate also reports whether the source is a Go template by its syntax.
func compileGoTemplate(source string) (compiled *textTemplate, reasons []string, isGo bool) {
	tree, trees, err := parseTemplate(source)
	if err != nil {
		return nil, []string{err.Error()}, false
	}
	analysed := analyse(tree, trees)
	if len(analysed.errors) > 0 {
		reasons = make([]string, len(analysed.errors))
		for i, f := range analysed.errors {
			reasons[i] = fmt.Sprintf("%v: %s", placeOf(source, f.at), f.reason)
		}
		return nil, reasons, true
	}
	executable, err := template.New(templateName).Option("missingkey=error").
		Funcs(implementations).Funcs(analysed.added).AddParseTree(templateName, tree)
	if err != nil {
		return nil, []string{err.Error()}, true
	}
	read := uses{}
	for name, at := range analysed.reads {
		read.note(name, placeOf(source, at))
	}
	compiled = &textTemplate{source: source, compiled: executable, uses: read}
	for _, chain := range analysed.chains {
		compiled.reads = append(compiled.reads, fieldRead{placeOf(source, chain.at), chain.path})
	}
	return compiled, nil, true
}

// parseTemplate returns a template's tree, and all trees together with those of further templates in the source.
func parseTemplate(source string) (*parse.Tree, map[string]*parse.Tree, error) {
	tree := parse.New(templateName)
	// The analysis knows the functions, and the position of an unknown one.
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(source, "", "", trees); err != nil {
		return nil, nil, syntaxError(err)
	}
	return tree, trees, nil
}

// syntaxError turns `template: claim:1: reason` into `line 1: reason`.
func syntaxError(err error) error {
	position, ok := strings.CutPrefix(err.Error(), "template: "+templateName+":")
	if !ok {
		return err
	}
	for name := range variableFields {
		if strings.HasSuffix(position, fmt.Sprintf("undefined variable %q", "$"+name)) {
			return fmt.Errorf("line %s; did you mean .%s?", position, name)
		}
	}
	return errors.New("line " + position)
}

// placeOf returns the place of a byte offset.
func placeOf(source string, offset int) place {
	before := source[:min(max(offset, 0), len(source))]
	return place{1 + strings.Count(before, "\n"), len(before) - strings.LastIndex(before, "\n")}
}

// execute renders the template, to at most bytesMax bytes.
func (t *textTemplate) execute(ctx context.Context, variables map[string]any, bytesMax int) (string, error) {
	out := boundedText{bytesMax: bytesMax}
	if t.isText() {
		_, err := out.Write([]byte(t.source))
		return t.source, err
	}
	if t.parts != nil {
		err := executeParts(ctx, t.parts, variables, &out)
		return out.String(), err
	}
	if err := t.compiled.Execute(&out, variables); err != nil {
		return "", executionError(err)
	}
	return out.String(), nil
}

// executionError reduces an error of text/template to position and reason. The part between them has the rewritten
// template.
func executionError(err error) error {
	var execution template.ExecError
	if !errors.As(err, &execution) {
		return err
	}
	reason := execution.Err.Error()
	var known *valueError
	if errors.As(err, &known) {
		reason = known.reason
	} else if _, after, found := strings.Cut(reason, ": error calling "); found {
		reason = after
	}
	var line, column int
	if _, scanErr := fmt.Sscanf(err.Error(), "template: "+templateName+":%d:%d:", &line, &column); scanErr != nil {
		return errors.New(reason)
	}
	return &placedError{place{line, column + 1}, reason}
}

// boundedText collects the output of a template, and stops a template with too much output.
type boundedText struct {
	strings.Builder
	bytesMax int
}

func (b *boundedText) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.bytesMax {
		return 0, fmt.Errorf("the text is longer than %d bytes", b.bytesMax)
	}
	return b.Builder.Write(p)
}

// WriteString is Write. Without it, callers would use the embedded Builder's, without a bound.
func (b *boundedText) WriteString(s string) (int, error) {
	return b.Write([]byte(s))
}
