package preview

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schemaTTL is how long a schema is cached. An author who changes a schema and then a policy sees the change soon.
const schemaTTL = 10 * time.Second

// schemaCache caches schemas. The schema documents have some megabytes, and many policies that are applied together are
// for few kinds.
type schemaCache struct {
	schemas Schemas
	byKind  *utilcache.Expiring
}

// CacheSchemas returns a cache of schemas. Each schema is cached for some seconds.
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
