package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// schemaField is the schema of one field, in the terms of the contract.
type schemaField struct {
	Type        string
	Required    bool
	Constraints map[string]string
}

// fieldsOf flattens the schema of a resource into its fields by path, without the fields common to all resources.
// Elements of lists end in [], values of maps in {}.
func fieldsOf(t *testing.T, root *apiextensionsv1.JSONSchemaProps) map[string]schemaField {
	t.Helper()
	fields := map[string]schemaField{}
	for name, property := range root.Properties {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			collectFields(t, fields, name, &property, slices.Contains(root.Required, name))
		}
	}
	return fields
}

func collectFields(t *testing.T, fields map[string]schemaField, path string, schema *apiextensionsv1.JSONSchemaProps, required bool) {
	t.Helper()
	fields[path] = schemaField{Type: schema.Type, Required: required, Constraints: constraintsOf(t, schema)}
	for name, property := range schema.Properties {
		collectFields(t, fields, path+"."+name, &property, slices.Contains(schema.Required, name))
	}
	if schema.Items != nil {
		collectFields(t, fields, path+"[]", schema.Items.Schema, true)
	}
	if schema.AdditionalProperties != nil {
		collectFields(t, fields, path+"{}", schema.AdditionalProperties.Schema, false)
	}
}

func constraintsOf(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) map[string]string {
	t.Helper()
	constraints := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			constraints[name] = value
		}
	}
	set("format", schema.Format)
	set("pattern", schema.Pattern)
	set("minLength", formatInt(schema.MinLength))
	set("maxLength", formatInt(schema.MaxLength))
	set("minItems", formatInt(schema.MinItems))
	set("maxItems", formatInt(schema.MaxItems))
	set("minProperties", formatInt(schema.MinProperties))
	set("maxProperties", formatInt(schema.MaxProperties))
	set("minimum", formatFloat(schema.Minimum))
	set("maximum", formatFloat(schema.Maximum))
	if schema.XListType != nil {
		set("listType", *schema.XListType)
	}
	set("listMapKeys", strings.Join(schema.XListMapKeys, ","))
	set("celRule", celMessages(schema))
	set("enum", enumValues(t, schema))
	if schema.Default != nil {
		set("default", canonicalJSON(t, schema.Default.Raw))
	}
	return constraints
}

func celMessages(schema *apiextensionsv1.JSONSchemaProps) string {
	var messages []string
	for _, rule := range schema.XValidations {
		messages = append(messages, rule.Message)
	}
	return strings.Join(messages, "; ")
}

func enumValues(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) string {
	t.Helper()
	var values []string
	for _, raw := range schema.Enum {
		var value any
		if err := json.Unmarshal(raw.Raw, &value); err != nil {
			t.Fatalf("decode enum value %s: %v", raw.Raw, err)
		}
		values = append(values, fmt.Sprint(value))
	}
	return strings.Join(values, "|")
}

// canonicalJSON orders keys and drops white space.
func canonicalJSON(t *testing.T, raw []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("encode %s: %v", raw, err)
	}
	return string(canonical)
}

func formatInt(value *int64) string {
	if value == nil {
		return ""
	}
	return strconv.FormatInt(*value, 10)
}

func formatFloat(value *float64) string {
	if value == nil {
		return ""
	}
	return strconv.FormatFloat(*value, 'f', -1, 64)
}
