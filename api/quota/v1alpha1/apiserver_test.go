package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bursar/bursar/internal/kube/crdschema"
)

func newSchema(t *testing.T, kind string) *crdschema.Schema {
	t.Helper()
	definition, found := definitions(t)[kind]
	if !found {
		t.Fatalf("there is no definition of %s", kind)
	}
	schema, err := crdschema.New(definition, "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// ruleCase is a change to a valid object, with the expected result.
type ruleCase[T any] struct {
	reason string
	change func(*T)

	// update makes the change to an existing object rather than to a new one.
	update bool

	// want are parts of the error message. Without any, the API server accepts the object.
	want []string
}

// checkRules makes each change to a fresh sample.
func checkRules[T any](t *testing.T, kind string, sample func() *T, cases map[string]ruleCase[T]) {
	t.Helper()
	schema := newSchema(t, kind)
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			var old map[string]any
			if tt.update {
				old = content(t, sample())
				if errs := schema.Admit(t.Context(), old, nil); len(errs) > 0 {
					t.Fatalf("the sample is refused: %v", errs.ToAggregate())
				}
			}
			object := sample()
			tt.change(object)
			errs := schema.Admit(t.Context(), content(t, object), old)
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
