package policy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// templatePart is a part of a text with CEL expressions: a literal text, or an expression.
type templatePart struct {
	text string
	// at is the place of the expression in the text.
	at         place
	expression *expression
}

// templateTypes are the permitted types of an expression in a text.
var templateTypes = []*cel.Type{cel.StringType, cel.DynType, cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType}

const mustPrint = "an expression in a text must yield a string, a number or a boolean"

// compileExpressions compiles a text with CEL expressions in double braces. It returns nothing if they are not CEL by
// their syntax.
func compileExpressions(source string) (*textTemplate, []string) {
	parts, ok := splitExpressions(source)
	if !ok || !areCEL(parts) {
		return nil, nil
	}
	t := &textTemplate{source: source, uses: uses{}, parts: []templatePart{}}
	var reasons []string
	for _, part := range parts {
		if part.expression == nil {
			t.parts = append(t.parts, part)
			continue
		}
		text := part.expression.source
		if utf8.RuneCountInString(text) > expressionCharsMax {
			return nil, []string{fmt.Sprintf("%v: an expression may not be longer than %d characters", part.at, expressionCharsMax)}
		}
		// White space in front moves the positions of errors to those in the text.
		padded := strings.Repeat("\n", part.at.line-1) + strings.Repeat(" ", part.at.column-1) + text
		compiled, errs := compileBounded(conditionEnv, seesRequest, field.NewPath(""), padded, mustPrint, templateTypes...)
		for _, err := range errs {
			reasons = append(reasons, err.Detail)
		}
		if compiled == nil {
			continue
		}
		for name, at := range compiled.uses {
			t.uses.note(name, at)
		}
		t.parts = append(t.parts, templatePart{at: part.at, expression: compiled})
	}
	if len(reasons) > 0 {
		return nil, reasons
	}
	return t, nil
}

// variableField matches an expression that begins with the field of a variable, as in CEL and unlike in a Go template.
var variableField = regexp.MustCompile(`^[A-Za-z_]\w*\.`)

// hasVariables reports whether an expression of a text begins with the field of a variable.
func hasVariables(source string) bool {
	parts, _ := splitExpressions(source)
	return slices.ContainsFunc(parts, func(p templatePart) bool {
		return p.expression != nil && variableField.MatchString(p.expression.source)
	})
}

// areCEL reports whether all expressions are CEL by their syntax, and whether there are any.
func areCEL(parts []templatePart) bool {
	env, err := conditionEnv()
	if err != nil {
		return false
	}
	for _, part := range parts {
		if part.expression == nil {
			continue
		}
		if _, issues := env.Parse(part.expression.source); issues.Err() != nil {
			return false
		}
	}
	return true
}

// splitExpressions splits a text at its double braces. An empty pair is omitted. It returns false if a pair does not
// end.
func splitExpressions(source string) (parts []templatePart, ok bool) {
	rest, offset := source, 0
	for {
		before, after, found := strings.Cut(rest, "{{")
		if before != "" {
			parts = append(parts, templatePart{text: before})
		}
		if !found {
			return parts, true
		}
		end := endOfExpression(after)
		if end < 0 {
			return nil, false
		}
		begin := offset + len(before) + len("{{")
		if text := strings.TrimSpace(after[:end]); text != "" {
			at := placeOf(source, begin+strings.Index(after, text))
			parts = append(parts, templatePart{at: at, expression: &expression{source: text}})
		}
		rest, offset = after[end+len("}}"):], begin+end+len("}}")
	}
}

// endOfExpression returns the offset of the braces that end an expression, beyond its string literals, or -1.
func endOfExpression(text string) int {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case strings.HasPrefix(text[i:], "}}"):
			return i
		}
	}
	return -1
}

// executeParts renders a text with CEL expressions.
func executeParts(ctx context.Context, parts []templatePart, variables map[string]any, out *boundedText) error {
	for i := range parts {
		text := parts[i].text
		if parts[i].expression != nil {
			var err error
			if text, err = parts[i].evaluate(ctx, variables); err != nil {
				return err
			}
		}
		if _, err := out.WriteString(text); err != nil {
			return err
		}
	}
	return nil
}

// evaluate returns the text of an expression.
func (p *templatePart) evaluate(ctx context.Context, variables map[string]any) (string, error) {
	value, _, err := p.expression.evaluate(ctx, variables)
	if TookTooLong(err) {
		return "", errTakesTooLong
	}
	var failed *EvaluationError
	if errors.As(err, &failed) {
		return "", &placedError{p.at, failed.err.Error()}
	}
	if err != nil {
		return "", err
	}
	text, err := textOf(value.Value())
	if err != nil {
		return "", &placedError{p.at, fmt.Sprintf("it yields %s, not a string", value.Type().TypeName())}
	}
	return text, nil
}
