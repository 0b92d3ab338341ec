package main

import (
	"cmp"
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// isUnchanged is the rule of an immutable field.
const isUnchanged = "self == oldSelf"

// rulesOf returns all rules of the API server for a value, except its type, and the default.
func rulesOf(schema *apiextensionsv1.JSONSchemaProps) []string {
	var rules []string
	add := func(format string, values ...any) { rules = append(rules, fmt.Sprintf(format, values...)) }
	if schema.Default != nil {
		add("default: %s", code(string(schema.Default.Raw)))
	}
	if len(schema.Enum) > 0 {
		var values []string
		for _, value := range schema.Enum {
			values = append(values, string(value.Raw))
		}
		add("one of %s", codes(values))
	}
	if bounds := between(number(schema.Minimum), number(schema.Maximum)); bounds != "" {
		add("%s", bounds)
	}
	if bounds := between(count(schema.MinLength), count(schema.MaxLength)); bounds != "" {
		add("%s characters", bounds)
	}
	if schema.Pattern != "" {
		add("matches %s", code(schema.Pattern))
	}
	if bounds := between(count(schema.MinItems), count(schema.MaxItems)); bounds != "" {
		add("%s items", bounds)
	}
	if bounds := between(count(schema.MinProperties), count(schema.MaxProperties)); bounds != "" {
		add("%s entries", bounds)
	}
	if schema.Nullable {
		add("may be null")
	}
	rules = append(rules, mergingOf(schema)...)
	for _, validation := range schema.XValidations {
		rules = append(rules, ruleOf(validation))
	}
	return rules
}

// mergingOf describes how server-side apply merges a list or an object, if the schema determines it.
func mergingOf(schema *apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case schema.XListType != nil && *schema.XListType == "map":
		return []string{"one item for each " + codes(schema.XListMapKeys)}
	case schema.XListType != nil && *schema.XListType == "set":
		return []string{"each item once"}
	case schema.XListType != nil && *schema.XListType == "atomic", schema.XMapType != nil && *schema.XMapType == "atomic":
		return []string{"applied as a whole"}
	}
	return nil
}

func ruleOf(validation apiextensionsv1.ValidationRule) string {
	if validation.Rule == isUnchanged {
		return "immutable: \"" + escape(cmp.Or(validation.Message, "cannot be changed")) + "\""
	}
	if validation.Message == "" {
		return code(validation.Rule)
	}
	return "\"" + escape(validation.Message) + "\": " + code(validation.Rule)
}

// between formats bounds. Each of them may be missing.
func between(low, high string) string {
	switch {
	case low != "" && low == high:
		return "exactly " + low
	case low != "" && high != "":
		return low + " to " + high
	case low != "":
		return "at least " + low
	case high != "":
		return "at most " + high
	}
	return ""
}

func number(bound *float64) string {
	if bound == nil {
		return ""
	}
	return strconv.FormatFloat(*bound, 'f', -1, 64)
}

func count(bound *int64) string {
	if bound == nil {
		return ""
	}
	return strconv.FormatInt(*bound, 10)
}
