package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/bursar/bursar/deploy/crds"
)

func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pageOf(t *testing.T, definitions ...*apiextensionsv1.CustomResourceDefinition) string {
	t.Helper()
	var page bytes.Buffer
	if err := write(&page, definitions); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestPageIsUpToDate(t *testing.T) {
	stored, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(stored), pageOf(t, definitions(t)...)); diff != "" {
		t.Errorf("docs/reference/api.md is out of date: run make generate (-stored +generated):\n%s", diff)
	}
}

// TestPageIsComplete looks for everything in a definition's fields in the section of its kind.
func TestPageIsComplete(t *testing.T) {
	for _, definition := range definitions(t) {
		t.Run(definition.Spec.Names.Kind, func(t *testing.T) {
			page := pageOf(t, definition)
			want := func(text string) {
				t.Helper()
				if !strings.Contains(page, text) {
					t.Errorf("the page does not say %s", text)
				}
			}
			for _, name := range definition.Spec.Names.ShortNames {
				want("- short name: `" + name + "`")
			}
			version := definition.Spec.Versions[0]
			for _, column := range version.AdditionalPrinterColumns {
				want("| " + column.Name + " | " + column.Type + " | `" + column.JSONPath + "` |")
			}
			for _, selectable := range version.SelectableFields {
				want("`" + strings.TrimPrefix(selectable.JSONPath, ".") + "`")
			}
			for name, schema := range version.Schema.OpenAPIV3Schema.Properties {
				if name == "spec" || name == "status" {
					wantField(want, name, &schema)
				}
			}
		})
	}
}

func wantField(want func(string), path string, schema *apiextensionsv1.JSONSchemaProps) {
	for _, validation := range schema.XValidations {
		want("\"" + validation.Message + "\"")
	}
	for _, value := range schema.Enum {
		want("`" + string(value.Raw) + "`")
	}
	switch {
	case schema.Items != nil:
		wantField(want, path+"[]", schema.Items.Schema)
	case schema.AdditionalProperties != nil:
		wantField(want, path+"{}", schema.AdditionalProperties.Schema)
	case !strings.HasSuffix(path, "[]") && !strings.HasSuffix(path, "{}"):
		want("- **`" + path + "`** (")
	}
	for name, property := range schema.Properties {
		wantField(want, path+"."+name, &property)
	}
}

func TestInternalKindsAreMarked(t *testing.T) {
	page := pageOf(t, definitions(t)...)
	_, ledger, found := strings.Cut(page, "\n## ConsumerLedger\n\n")
	if !found || !strings.HasPrefix(ledger, "**Internal.**") {
		t.Error("ConsumerLedger has to be marked as internal")
	}
	if strings.Contains(ledger, "\n## ") {
		t.Error("internal kinds come last")
	}
	if n := strings.Count(page, "\n**Internal.**"); n != 2 {
		t.Errorf("%d kinds are marked as internal, want 2", n)
	}
}

func TestField(t *testing.T) {
	raw := func(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }
	tests := map[string]struct {
		reason string
		schema apiextensionsv1.JSONSchemaProps
		want   string
	}{
		"described": {
			"a description is shown as it is written",
			apiextensionsv1.JSONSchemaProps{Type: "string", Description: "f is <one> of *many*, `a*b` or a_b.\n\nIt goes on."},
			"- **`f`** (string, optional):\n  f is &lt;one> of \\*many\\*, `a*b` or a\\_b.\n\n  It goes on.\n",
		},
		"number": {
			"bounds in words",
			apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int64", Minimum: new(1.0), Default: raw("1")},
			"- **`f`** (integer (int64), optional)\n  - default: `1`\n  - at least 1\n",
		},
		"text": {
			"patterns are code",
			apiextensionsv1.JSONSchemaProps{Type: "string", MinLength: new(int64(1)), MaxLength: new(int64(253)), Pattern: "^a|b$", Enum: []apiextensionsv1.JSON{*raw(`"a"`), *raw(`"b"`)}},
			"- **`f`** (string, optional)\n  - one of `\"a\"`, `\"b\"`\n  - 1 to 253 characters\n  - matches `^a|b$`\n",
		},
		"list": {
			"what holds for each element is told apart",
			apiextensionsv1.JSONSchemaProps{
				Type: "array", MaxItems: new(int64(20)), XListType: new("map"), XListMapKeys: []string{"type"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"type"}, MinProperties: new(int64(1)),
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"type": {Type: "string"}},
				}},
			},
			"- **`f`** (list of object, optional)\n  - at most 20 items\n  - one item for each `type`\n  - each: at least 1 entries\n" +
				"- **`f[].type`** (string, **required**)\n",
		},
		"map": {
			"values of a map too",
			apiextensionsv1.JSONSchemaProps{
				Type: "object", XMapType: new("atomic"),
				AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(63))}},
			},
			"- **`f`** (map of string, optional)\n  - applied as a whole\n  - each: at most 63 characters\n",
		},
		"rules": {
			"what cannot be changed is said in a word",
			apiextensionsv1.JSONSchemaProps{Type: "object", XValidations: apiextensionsv1.ValidationRules{
				{Rule: "self == oldSelf", Message: "f is immutable"}, {Rule: "self == oldSelf"}, {Rule: "size(self) < 3", Message: "too big"}, {Rule: "true"},
			}},
			"- **`f`** (object, optional)\n  - immutable: \"f is immutable\"\n  - immutable: \"cannot be changed\"\n  - \"too big\": `size(self) < 3`\n  - `true`\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var page bytes.Buffer
			writeField(&page, field{path: "f", schema: &tt.schema})
			if diff := cmp.Diff(tt.want, page.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}
