package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	namevalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// templateField is a field of a claim or grant template that may be a template itself.
type templateField struct {
	path     string
	template *textTemplate
	rules    fieldRules
}

// fieldRules are the rules for the text of a field.
type fieldRules struct {
	// required forbids an empty text. Otherwise an empty text means an absent field.
	required bool
	// mayVary allows a text to depend on the request, in a policy that follows updates too.
	mayVary bool
	// bytesMax is the length of the longest text.
	bytesMax int
	// check returns the reasons why a text is invalid. It is not called for an empty text. Nil accepts every text.
	check func(string) []string
}

var (
	nameRules              = fieldRules{bytesMax: nameBytesMax, check: isObjectName}
	generateNameRules      = fieldRules{bytesMax: nameBytesMax, check: isNamePrefix}
	namespaceRules         = fieldRules{bytesMax: nameBytesMax, check: namevalidation.IsDNS1123Label}
	annotationRules        = fieldRules{mayVary: true, bytesMax: annotationBytesMax}
	consumerAPIGroupRules  = fieldRules{bytesMax: nameBytesMax, check: isObjectName}
	consumerKindRules      = fieldRules{required: true, bytesMax: nameBytesMax, check: isKind}
	consumerNameRules      = fieldRules{required: true, bytesMax: nameBytesMax, check: content.IsPathSegmentName}
	consumerNamespaceRules = namespaceRules
	dimensionRules         = fieldRules{bytesMax: nameBytesMax}
)

// isObjectName accepts a DNS subdomain, as for names of claims and API groups.
func isObjectName(name string) []string { return validation.NameIsDNSSubdomain(name, false) }

// isNamePrefix accepts a text that becomes a DNS subdomain with added letters.
func isNamePrefix(prefix string) []string { return validation.NameIsDNSSubdomain(prefix, true) }

// isKind accepts a kind as CustomResourceDefinitions do: a DNS label, but in any case.
func isKind(kind string) []string { return namevalidation.IsDNS1035Label(strings.ToLower(kind)) }

// compileField compiles the template of a field. It checks a plain text like a rendered one.
func compileField(path *field.Path, source string, rules fieldRules) (templateField, field.ErrorList) {
	f := templateField{path: path.String(), rules: rules}
	if source == "" && rules.required {
		return f, field.ErrorList{field.Required(path, "nothing can be made without it")}
	}
	if len(source) > templateBytesMax {
		return f, field.ErrorList{field.TooLong(path, "", templateBytesMax)}
	}
	var reasons []string
	f.template, reasons = compileTemplate(source)
	if len(reasons) == 0 && f.template.isText() {
		reasons = f.invalidReasons(source)
	}
	return f, invalid(path, source, reasons)
}

// invalid returns an error for each reason why a field's source is invalid, up to errorsMax.
func invalid(path *field.Path, source string, reasons []string) field.ErrorList {
	var errs field.ErrorList
	for _, reason := range reasons[:min(len(reasons), errorsMax)] {
		errs = append(errs, field.Invalid(path, excerpt(source), reason))
	}
	return errs
}

// excerpt shortens a text, such as the source of a field, for an error.
func excerpt(text string) string {
	if len(text) <= excerptBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:excerptBytesMax], "") + "..."
}

// render returns the valid text of the field. The error names the field.
func (f *templateField) render(ctx context.Context, variables map[string]any) (string, error) {
	if f.template.isText() {
		return f.template.source, nil
	}
	text, err := f.template.execute(ctx, variables, f.rules.bytesMax)
	if err != nil {
		return "", f.failed(err)
	}
	if text == "" && f.rules.required {
		return "", f.failed(errors.New("the text is empty"))
	}
	if reasons := f.invalidReasons(text); len(reasons) > 0 {
		return "", f.failed(fmt.Errorf("the text %q is not valid: %s", text, strings.Join(reasons, "; ")))
	}
	return text, nil
}

func (f *templateField) failed(err error) error {
	return &EvaluationError{Path: f.path, verb: "render", source: f.template.source, err: err}
}

// invalidReasons returns the reasons why the text is invalid for the field.
func (f *templateField) invalidReasons(text string) []string {
	switch {
	case text == "":
		return nil
	case len(text) > f.rules.bytesMax:
		return []string{fmt.Sprintf("may not be longer than %d bytes", f.rules.bytesMax)}
	case strings.ToValidUTF8(text, "") != text:
		return []string{"is not valid UTF-8"}
	case f.rules.check == nil:
		return nil
	default:
		return f.rules.check(text)
	}
}
