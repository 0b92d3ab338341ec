package policy

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	namevalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// templateField is a field of a claim or grant template that may hold a Go template.
type templateField struct {
	path     string
	template *textTemplate
	rules    fieldRules
}

// fieldRules say which texts a field may have.
type fieldRules struct {
	// required means that the text may not be empty. Where it may, empty means absent.
	required bool
	// mayVary means that the text may depend on the request, in a policy that follows updates too.
	mayVary bool
	// bytesMax is the length of the longest text.
	bytesMax int
	// check says what is wrong with a text that is not empty; nil if any text will do.
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

// isObjectName wants a DNS subdomain, which names of claims and API groups are.
func isObjectName(name string) []string { return validation.NameIsDNSSubdomain(name, false) }

// isNamePrefix wants what becomes a DNS subdomain once letters are added.
func isNamePrefix(prefix string) []string { return validation.NameIsDNSSubdomain(prefix, true) }

// isKind wants a kind as CustomResourceDefinitions do: a DNS label, but in any case.
func isKind(kind string) []string { return namevalidation.IsDNS1035Label(strings.ToLower(kind)) }

// compileField compiles the template of a field. A plain text is checked like a rendered one.
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
	if len(reasons) == 0 && f.template.compiled == nil {
		reasons = f.invalidReasons(source)
	}
	return f, invalid(path, source, reasons)
}

// invalid returns an error for each fault of a field's source, or for the first of very many.
func invalid(path *field.Path, source string, reasons []string) field.ErrorList {
	var errs field.ErrorList
	for _, reason := range reasons[:min(len(reasons), errorsMax)] {
		errs = append(errs, field.Invalid(path, excerpt(source), reason))
	}
	return errs
}

// excerpt shortens a text, such as the source of a field, to what an error can show of it.
func excerpt(text string) string {
	if len(text) <= excerptBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:excerptBytesMax], "") + "..."
}

// render returns the text of the field, which is valid. The error names the field.
func (f *templateField) render(variables map[string]any) (string, error) {
	if f.template.compiled == nil {
		return f.template.source, nil
	}
	text, err := f.template.execute(variables, f.rules.bytesMax)
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

// invalidReasons says why the field may not have this text.
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
