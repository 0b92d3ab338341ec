package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schemaFieldsMax bounds the fields of an object in a finding.
const schemaFieldsMax = 8

// fieldRead is a field of the object that a template reads, with its place.
type fieldRead struct {
	at   place
	path []string
}

// Mismatches compares the fields that the policy reads with the schema of its kind, with all references resolved. Each
// finding begins with the field of the policy. None is certain: a schema may omit fields, and does not describe their
// values.
func (p *ClaimPolicy) Mismatches(schema *spec.Schema) []string {
	amounts := make([]*expression, 0, len(p.requests))
	var templates []*templateField
	for i := range p.requests {
		if amount := p.requests[i].expression; amount != nil {
			amounts = append(amounts, &amount.expression)
		}
		templates = append(templates, fieldsOf(p.requests[i].dimensions)...)
	}
	return mismatches(schema, p.conditions, amounts, append(templatesOf(&p.metadataFields, &p.consumer), templates...))
}

// Mismatches is as [ClaimPolicy.Mismatches].
func (p *GrantPolicy) Mismatches(schema *spec.Schema) []string {
	var names []*expression
	if p.parentName != nil {
		names = append(names, &p.parentName.expression)
	}
	return mismatches(schema, p.conditions, names, templatesOf(&p.metadataFields, &p.consumer))
}

func templatesOf(m *metadataFields, c *consumerFields) []*templateField {
	fields := append([]*templateField{&m.name, &m.generateName, &m.namespace}, fieldsOf(m.annotations)...)
	return append(fields, &c.apiGroup, &c.kind, &c.name, &c.namespace)
}

func fieldsOf(entries []keyedField) []*templateField {
	fields := make([]*templateField, len(entries))
	for i := range entries {
		fields[i] = &entries[i].value
	}
	return fields
}

func mismatches(schema *spec.Schema, conditions []*condition, others []*expression, templates []*templateField) []string {
	var found []string
	// The name belongs to no variable: CEL would take object.spec for a type of that name.
	object := declTypeOf(schema).MaybeAssignTypeName("Triggering")
	environ, err := newEnv(requestVariables(object), object)
	if err != nil {
		return nil // CEL cannot express the schema
	}
	for _, c := range conditions {
		found = append(found, c.mismatches(environ, "a condition must yield bool", cel.BoolType, cel.DynType)...)
	}
	for _, e := range others {
		found = append(found, e.mismatches(environ, "")...)
	}
	for _, f := range templates {
		if f.template == nil {
			continue
		}
		for _, part := range f.template.parts {
			if part.expression != nil {
				inField := *part.expression
				inField.path = f.path
				found = append(found, inField.mismatches(environ, "")...)
			}
		}
		for _, read := range f.template.reads {
			if reason := undefinedIn(schema, read.path); reason != "" {
				found = append(found, fmt.Sprintf("%s: %v: %s", f.path, read.at, reason))
			}
		}
	}
	return found
}

// mismatches compiles the expression with the type of the object known. mustYield begins the finding for a result of
// another type than those in yields; it is empty if every type is valid.
func (e *expression) mismatches(environ *cel.Env, mustYield string, yields ...*cel.Type) []string {
	ast, issues := environ.Compile(e.source)
	var found []string
	if issues.Err() != nil {
		for _, issue := range issues.Errors() {
			at := place{issue.Location.Line(), issue.Location.Column() + 1}
			found = append(found, fmt.Sprintf("%s: %v: %s", e.path, at, excerpt(issue.Message)))
		}
		return found
	}
	if result := ast.OutputType(); mustYield != "" && !slices.ContainsFunc(yields, result.IsExactType) {
		found = append(found, fmt.Sprintf("%s: 1:1: %s, not %s", e.path, mustYield, result))
	}
	return found
}

// declTypeOf returns the type of a schema's values in expressions. These see objects as decoded from JSON: times are
// texts, and a number may be whole or not.
func declTypeOf(s *spec.Schema) *apiservercel.DeclType {
	switch {
	case isOpen(s):
		return apiservercel.DynType
	case s.Type.Contains("string"):
		return apiservercel.StringType
	case s.Type.Contains("boolean"):
		return apiservercel.BoolType
	case s.Type.Contains("integer"):
		return apiservercel.IntType
	case s.Type.Contains("array"):
		return apiservercel.NewListType(declTypeOf(s.Items.Schema), math.MaxInt32)
	case s.AdditionalProperties != nil:
		return apiservercel.NewMapType(apiservercel.StringType, declTypeOf(s.AdditionalProperties.Schema), math.MaxInt32)
	}
	fields := make(map[string]*apiservercel.DeclField, len(s.Properties))
	for name := range s.Properties {
		property := s.Properties[name]
		fields[name] = apiservercel.NewDeclField(name, declTypeOf(&property), false, nil, nil)
	}
	return apiservercel.NewObjectType("object", fields)
}

// isOpen reports whether a schema leaves the type of its values, or their fields, open.
func isOpen(s *spec.Schema) bool {
	preserves, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
	isIntOrString, _ := s.Extensions.GetBool("x-kubernetes-int-or-string")
	embeds, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource")
	if preserves || isIntOrString || embeds || s.Format == "int-or-string" || len(s.Type) != 1 {
		return true
	}
	switch s.Type[0] {
	case "string", "boolean", "integer":
		return false
	case "array":
		return s.Items == nil || s.Items.Schema == nil
	case "object":
		if s.AdditionalProperties != nil {
			return s.AdditionalProperties.Schema == nil || len(s.Properties) > 0
		}
		return len(s.Properties) == 0
	default: // numbers
		return true
	}
}

// undefinedIn returns the reason why a chain of fields does not exist in the schema of the object, or "".
func undefinedIn(s *spec.Schema, path []string) string {
	for i, name := range path {
		if i == 0 {
			continue // the object itself
		}
		if isOpen(s) {
			return ""
		}
		switch {
		case s.Type.Contains("array"):
			digits, isItem := strings.CutPrefix(name, "_")
			if _, err := strconv.Atoi(digits); !isItem || err != nil {
				return fmt.Sprintf("undefined field %s: %s is a list", chainText("", path), chainText("", path[:i]))
			}
			s = s.Items.Schema
		case s.AdditionalProperties != nil:
			s = s.AdditionalProperties.Schema
		default:
			property, known := s.Properties[name]
			if !known {
				return fmt.Sprintf("undefined field %s%s", chainText("", path[:i+1]), alternatives(s, chainText("", path[:i])))
			}
			s = &property
		}
	}
	return ""
}

// alternatives lists the existing fields.
func alternatives(s *spec.Schema, at string) string {
	if len(s.Properties) == 0 {
		return ": " + at + " has no fields"
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	more := ""
	if len(names) > schemaFieldsMax {
		names, more = names[:schemaFieldsMax], fmt.Sprintf(" and %d more", len(names)-schemaFieldsMax)
	}
	return fmt.Sprintf("; %s has %s%s", at, strings.Join(names, ", "), more)
}
