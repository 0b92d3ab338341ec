package v1alpha1_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/crds"
)

// internalKinds are not in the contract because only Bursar uses them, and addedKinds because they come from other
// projects.
var (
	internalKinds = map[string]bool{"ConsumerLedger": true, "AllocationLedger": true}
	addedKinds    = map[string]bool{"EffectiveResourceGrant": true, "ResourceQuotaAllocation": true, "LocalResourceQuotaAllocation": true, "QuotaAlert": true, "QuotaDecision": true, "QuotaHistory": true, "QuotaRequest": true, "QuotaRequestPolicy": true, "QuotaReview": true, "QuotaUsage": true}
)

func isBeyondContract(kind string) bool { return internalKinds[kind] || addedKinds[kind] }

// TestContractFields proves that the CRDs have every field of the contract with exactly its constraints, apart from the
// listed departures.
func TestContractFields(t *testing.T) {
	contract := contractFields(t)
	applyDepartures(t, contract)
	for kind, definition := range definitions(t) {
		if isBeyondContract(kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			got := fieldsOf(t, schemaOf(definition))
			for path := range got {
				if _, known := contract[kind][path]; !known {
					delete(got, path)
				}
			}
			if diff := cmp.Diff(contract[kind], got); diff != "" {
				t.Errorf("fields of %s (-contract +definition):\n%s", kind, diff)
			}
		})
	}
}

// TestNoFieldsBeyondContract proves that the CRDs have only the fields of the contract and the listed additions, and
// that all additions are optional.
func TestNoFieldsBeyondContract(t *testing.T) {
	contract := contractFields(t)
	found := map[string]bool{}

	for kind, definition := range definitions(t) {
		if isBeyondContract(kind) {
			continue
		}
		fields := fieldsOf(t, schemaOf(definition))
		for path, field := range fields {
			if _, known := contract[kind][path]; known {
				continue
			}
			addition, listed := additionCovering(kind, path)
			if !listed {
				t.Errorf("%s has %s, which is neither in the contract nor a listed addition", kind, path)
			}
			if path == addition.path && field.Required {
				t.Errorf("%s requires %s: objects that are valid under the contract are refused", kind, path)
			}
			found[addition.kind+" "+addition.path] = true
		}
	}

	for _, addition := range additions {
		if !found[addition.kind+" "+addition.path] {
			t.Errorf("%s does not have the listed addition %s", addition.kind, addition.path)
		}
	}
}

// TestContractKinds proves that names, scopes, status subresources, selectable fields and printer
// columns are those of the contract.
func TestContractKinds(t *testing.T) {
	got := map[string]kindRow{}
	for kind, definition := range definitions(t) {
		if !isBeyondContract(kind) {
			got[kind] = kindRowOf(definition)
			// Bursar's own columns come after those of the contract.
			row, columns := got[kind], contractKinds(t)[kind].PrinterColumns
			if strings.HasPrefix(row.PrinterColumns, columns+" | ") {
				row.PrinterColumns = columns
				got[kind] = row
			}
		}
	}

	want := contractKinds(t)
	for kind, more := range map[string]string{
		"GrantCreationPolicy":  ",.spec.enabled,.spec.disabled", // the reference names the first query, and its definition lacks it
		"ClaimCreationPolicy":  ",.spec.disabled",
		"ResourceRegistration": ",.spec.consumerType.kind,.spec.consumerType.apiGroup",
	} {
		row := want[kind]
		row.SelectableFields += more // by the names of a later revision
		want[kind] = row
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-contract +definitions):\n%s", diff)
	}
}

// kindRow is a row of the contract's table of kinds.
type kindRow struct {
	Scope, Plural, Subresources, SelectableFields, PrinterColumns string
}

func kindRowOf(definition *apiextensionsv1.CustomResourceDefinition) kindRow {
	version := definition.Spec.Versions[0]
	row := kindRow{Scope: string(definition.Spec.Scope), Plural: definition.Spec.Names.Plural}
	if version.Subresources != nil && version.Subresources.Status != nil {
		row.Subresources = "status"
	}
	var selectable, columns []string
	for _, field := range version.SelectableFields {
		selectable = append(selectable, field.JSONPath)
	}
	for _, column := range version.AdditionalPrinterColumns {
		columns = append(columns, column.Name+":"+column.JSONPath)
	}
	row.SelectableFields = strings.Join(selectable, ",")
	row.PrinterColumns = strings.Join(columns, " | ")
	return row
}

func contractKinds(t *testing.T) map[string]kindRow {
	t.Helper()
	kinds := map[string]kindRow{}
	for _, row := range readTable(t, "kinds.tsv") {
		kinds[row["kind"]] = kindRow{
			Scope:            row["scope"],
			Plural:           row["plural"],
			Subresources:     row["subresource"],
			SelectableFields: row["selectableFields"],
			PrinterColumns:   row["printerColumns"],
		}
	}
	return kinds
}

func contractFields(t *testing.T) map[string]map[string]schemaField {
	t.Helper()
	kinds := map[string]map[string]schemaField{}
	for _, row := range readTable(t, "fields.tsv") {
		fields := kinds[row["kind"]]
		if fields == nil {
			fields = map[string]schemaField{}
			kinds[row["kind"]] = fields
		}
		fields[row["path"]] = schemaField{
			Type:        row["type"],
			Required:    row["required"] == "required",
			Constraints: parseConstraints(t, row["constraints"]),
		}
	}
	return kinds
}

// parseConstraints reads "name=value; name=value; celRule: message".
func parseConstraints(t *testing.T, text string) map[string]string {
	t.Helper()
	constraints := map[string]string{}
	if text == "" {
		return constraints
	}
	for part := range strings.SplitSeq(text, "; ") {
		name, value, found := strings.Cut(part, "=")
		if rule, isRule := strings.CutPrefix(part, "celRule: "); isRule {
			name, value, found = "celRule", rule, true
		}
		if !found {
			t.Fatalf("constraint %q has no value", part)
		}
		if name == "default" {
			value = canonicalJSON(t, []byte(value))
		}
		constraints[name] = value
	}
	return constraints
}

// readTable reads a tab-separated table with a header into one map by column name for each row.
func readTable(t *testing.T, name string) []map[string]string {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "contract", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	var header []string
	var rows []map[string]string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		cells := strings.Split(lines.Text(), "\t")
		if header == nil {
			header = cells
			continue
		}
		row := map[string]string{}
		for i, column := range header {
			if i < len(cells) {
				row[column] = cells[i]
			}
		}
		rows = append(rows, row)
	}

	if len(rows) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return rows
}

// definitions returns the CRDs of this API group by kind.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, definition := range all {
		if definition.Spec.Group == v1alpha1.GroupName {
			byKind[definition.Spec.Names.Kind] = definition
		}
	}
	if len(byKind) == 0 {
		t.Fatalf("no definitions of %s", v1alpha1.GroupName)
	}
	return byKind
}

func schemaOf(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}
