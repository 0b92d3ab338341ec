package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const introduction = `# API reference

<!-- Generated from the Go types by "make generate". Do not edit. -->

The kinds are in %s, as each section says. Like every Kubernetes object, each also has
apiVersion, kind and metadata. Amounts are in base units of their resource type.

A *required* field must be set if the object that contains it is set. ` + "`[]`" + ` stands for an
element of a list, ` + "`{}`" + ` for a value of a map. The rules are those that the API server itself
enforces. Bursar's webhooks validate more, such as templates and CEL expressions, and reject in the same form.

`

const isInternal = `**Internal.** Only Bursar writes objects of this kind. Their content is not part of the API and may
change with any release.

`

// write writes the page for these definitions. It returns an error unless the first version of each has a schema. Later
// versions are internal.
func write(page *bytes.Buffer, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	kinds, versions := make([]kind, 0, len(definitions)), []string(nil)
	for _, definition := range definitions {
		k, err := newKind(definition)
		if err != nil {
			return err
		}
		kinds = append(kinds, k)
		versions = append(versions, "`"+definition.Spec.Group+"/"+k.version.Name+"`")
	}
	slices.SortStableFunc(kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name(), b.name()))
	})
	slices.Sort(versions)
	fmt.Fprintf(page, introduction, strings.Join(slices.Compact(versions), " and "))
	page.WriteString("| kind | short name | scope | |\n| --- | --- | --- | --- |\n")
	for _, k := range kinds {
		fmt.Fprintf(page, "| [%s](#%s) | %s | %s | %s |\n", k.name(), strings.ToLower(k.name()),
			codes(k.definition.Spec.Names.ShortNames), scopes[k.definition.Spec.Scope], k.summary())
	}
	for _, k := range kinds {
		k.write(page)
	}
	return nil
}

var scopes = map[apiextensionsv1.ResourceScope]string{
	apiextensionsv1.ClusterScoped:   "cluster",
	apiextensionsv1.NamespaceScoped: "namespaced",
}

// rank orders internal kinds last.
func rank(k kind) int {
	if k.internal() {
		return 1
	}
	return 0
}

// kind is a definition with its first version.
type kind struct {
	definition *apiextensionsv1.CustomResourceDefinition
	version    *apiextensionsv1.CustomResourceDefinitionVersion
	schema     *apiextensionsv1.JSONSchemaProps
}

func newKind(definition *apiextensionsv1.CustomResourceDefinition) (kind, error) {
	versions := definition.Spec.Versions
	if len(versions) == 0 || versions[0].Schema == nil || versions[0].Schema.OpenAPIV3Schema == nil {
		return kind{}, fmt.Errorf("CustomResourceDefinition %s has no version with a schema", definition.Name)
	}
	return kind{definition: definition, version: &versions[0], schema: versions[0].Schema.OpenAPIV3Schema}, nil
}

func (k kind) name() string { return k.definition.Spec.Names.Kind }

// internal reports whether only Bursar uses the kind. An internal kind is in none of Bursar's categories, so "kubectl
// get bursar" does not list it.
func (k kind) internal() bool { return len(k.definition.Spec.Names.Categories) == 0 }

// summary returns the first sentence of the kind's description.
func (k kind) summary() string {
	text := "**Internal.** "
	if !k.internal() {
		text = ""
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(k.schema.Description, "\n", " "), ". ")
	return text + escape(strings.TrimSuffix(first, ".")) + "."
}

func (k kind) write(page *bytes.Buffer) {
	fmt.Fprintf(page, "\n## %s\n\n", k.name())
	if k.internal() {
		page.WriteString(isInternal)
	}
	page.WriteString(escape(k.schema.Description) + "\n\n")
	k.writeNames(page)
	if columns := k.version.AdditionalPrinterColumns; len(columns) > 0 {
		page.WriteString("\n`kubectl get` shows, besides the name:\n\n| column | type | from | |\n| --- | --- | --- | --- |\n")
		for _, column := range columns {
			wide := ""
			if column.Priority > 0 {
				wide = "with `-o wide`"
			}
			fmt.Fprintf(page, "| %s | %s | %s | %s |\n", column.Name, column.Type, code(column.JSONPath), wide)
		}
	}
	if rules := rulesOf(k.schema); len(rules) > 0 {
		page.WriteString("\n### Rules\n\n")
		writeRules(page, "", rules)
	}
	for _, part := range slices.Sorted(maps.Keys(k.schema.Properties)) {
		if slices.Contains([]string{"apiVersion", "kind", "metadata"}, part) {
			continue
		}
		fmt.Fprintf(page, "\n### %s: %s\n\n", k.name(), part)
		schema := k.schema.Properties[part]
		writeField(page, field{path: part, schema: &schema, required: slices.Contains(k.schema.Required, part)})
	}
}

func (k kind) writeNames(page *bytes.Buffer) {
	names := k.definition.Spec.Names
	fmt.Fprintf(page, "- apiVersion: %s\n", code(k.definition.Spec.Group+"/"+k.version.Name))
	fmt.Fprintf(page, "- resource: %s, %s\n", code(names.Plural+"."+k.definition.Spec.Group), scopes[k.definition.Spec.Scope])
	if len(names.ShortNames) > 0 {
		fmt.Fprintf(page, "- short name: %s\n", codes(names.ShortNames))
	}
	if len(names.Categories) > 0 {
		fmt.Fprintf(page, "- category: %s\n", codes(names.Categories))
	}
	if k.version.Subresources != nil && k.version.Subresources.Status != nil {
		page.WriteString("- subresource: `status`, which only Bursar writes\n")
	}
	if len(k.version.SelectableFields) > 0 {
		var paths []string
		for _, selectable := range k.version.SelectableFields {
			paths = append(paths, strings.TrimPrefix(selectable.JSONPath, "."))
		}
		fmt.Fprintf(page, "- field selectors: %s\n", codes(paths))
	}
}
