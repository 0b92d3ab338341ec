package preview

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schemaTTL is how long the cache keeps a schema. It is short, because an author may change a schema and then a
// policy.
const schemaTTL = 10 * time.Second

// schemaCache caches schemas. The schema documents have some megabytes. Many policies, applied together, are for few
// kinds.
type schemaCache struct {
	schemas Schemas
	byKind  *utilcache.Expiring
}

// CacheSchemas returns a cache of schemas. It keeps each schema for some seconds.
func CacheSchemas(schemas Schemas) Schemas {
	return &schemaCache{schemas, utilcache.NewExpiring()}
}

// ResolveSchema implements [Schemas].
func (r *schemaCache) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	if known, ok := r.byKind.Get(kind); ok {
		return known.(*spec.Schema), nil
	}
	found, err := r.schemas.ResolveSchema(kind)
	if err != nil {
		return nil, err
	}
	r.byKind.Set(kind, found, schemaTTL)
	return found, nil
}
