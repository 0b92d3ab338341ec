package preview

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// counting counts its calls, and fails while it has an error.
type counting struct {
	asked int
	err   error
}

func (c *counting) ResolveSchema(schema.GroupVersionKind) (*spec.Schema, error) {
	c.asked++
	return &spec.Schema{}, c.err
}

func TestSchemasAreRemembered(t *testing.T) {
	c := &counting{err: errors.New("connection refused")}
	schemas, app := CacheSchemas(c), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	if _, err := schemas.ResolveSchema(app); !errors.Is(err, c.err) {
		t.Errorf("got %v, want %v", err, c.err)
	}
	c.err = nil
	for range 3 {
		if found, err := schemas.ResolveSchema(app); found == nil || err != nil {
			t.Errorf("got %v, %v", found, err)
		}
	}
	if c.asked != 2 {
		t.Errorf("it was asked %d times, want once for the error and once for the schema", c.asked)
	}
}
