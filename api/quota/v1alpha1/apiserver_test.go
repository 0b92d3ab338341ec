package v1alpha1_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// schemaChecks is what the API server does with an object of one kind before it stores it.
type schemaChecks struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newSchemaChecks(t *testing.T, kind string) *schemaChecks {
	t.Helper()
	definition, found := definitions(t)[kind]
	if !found {
		t.Fatalf("there is no definition of %s", kind)
	}
	schema, err := apiextensions.GetSchemaForVersion(asStored(t, definition), "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return &schemaChecks{
		structural: structural,
		schema:     validator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}
}

// admit prunes and defaults an object in place and returns what is wrong with it. For a create,
// old is nil. As in the API server, CEL rules are evaluated only where the schema is met.
func (c *schemaChecks) admit(ctx context.Context, object, old map[string]any) field.ErrorList {
	pruning.Prune(object, c.structural, true)
	defaulting.Default(object, c.structural)
	errs := validation.ValidateCustomResource(nil, object, c.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if len(errs) > 0 || c.rules == nil {
		return errs
	}
	var previous any
	if old != nil {
		previous = old
	}
	errs, _ = c.rules.Validate(ctx, nil, c.structural, object, previous, celconfig.RuntimeCELCostBudget)
	return errs
}

// ruleCase is a change to a valid object and what comes of it.
type ruleCase[T any] struct {
	reason string
	change func(*T)

	// update makes the change to an existing object rather than to a new one.
	update bool

	// want are parts of the error message; none means that the object is accepted.
	want []string
}

// checkRules makes each change to a fresh sample.
func checkRules[T any](t *testing.T, kind string, sample func() *T, cases map[string]ruleCase[T]) {
	t.Helper()
	checks := newSchemaChecks(t, kind)
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			var old map[string]any
			if tt.update {
				old = content(t, sample())
				if errs := checks.admit(t.Context(), old, nil); len(errs) > 0 {
					t.Fatalf("the sample is refused: %v", errs.ToAggregate())
				}
			}
			object := sample()
			tt.change(object)
			errs := checks.admit(t.Context(), content(t, object), old)
			if len(tt.want) == 0 && len(errs) > 0 {
				t.Errorf("%s: refused: %v", tt.reason, errs.ToAggregate())
			}
			for _, want := range tt.want {
				if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), want) {
					t.Errorf("%s: got %v, want an error that mentions %q", tt.reason, errs.ToAggregate(), want)
				}
			}
		})
	}
}

// content is an object as the API server decodes it.
func content(t *testing.T, object any) map[string]any {
	t.Helper()
	unstructured, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return unstructured
}
