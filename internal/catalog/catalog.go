// Package catalog is what administrators have declared, in the form in which decisions use it:
// the active registrations by resource type, the enabled policies, compiled, by the kind they protect, and the
// caps on ResourceQuotas. It is filled from watches and read on every protected create.
package catalog

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// Catalog is safe for concurrent use.
type Catalog struct {
	// ExceededAdvice is what the platform says to do where there is not enough, with {{name}} for the consumer's name.
	// It is set once, before use. Empty: what is said of no platform in particular.
	ExceededAdvice string
	// ConsumerNamespaces, if set, say where the quota of consumers is shown. It is set once, before use.
	ConsumerNamespaces *naming.ConsumerNamespaces

	mu            sync.RWMutex
	registrations map[string]*Registration // by name
	byType        map[string]*Registration // by resource type
	policies      map[string]*Policy
	byKind        map[schema.GroupVersionKind][]*Policy
	byGroupKind   map[schema.GroupKind][]*Policy
	invalid       map[string]invalidPolicy // policies that do not compile, by name
	// effective are the policies that the registrations allow, or did since they were entered.
	effective   map[string]bool
	suspended   map[string]bool
	revision    int64
	allocations map[string]*Allocation // by name
	// What was declared, whether it can be used or not.
	declaredPolicies, declaredRegistrations, declaredAllocations declared
}

// New returns an empty catalog.
func New() *Catalog {
	return &Catalog{
		registrations: map[string]*Registration{},
		byType:        map[string]*Registration{},
		policies:      map[string]*Policy{},
		byKind:        map[schema.GroupVersionKind][]*Policy{},
		byGroupKind:   map[schema.GroupKind][]*Policy{},
		invalid:       map[string]invalidPolicy{},
		effective:     map[string]bool{},
		suspended:     map[string]bool{},
		allocations:   map[string]*Allocation{},

		declaredPolicies:      newDeclared(),
		declaredRegistrations: newDeclared(),
		declaredAllocations:   newDeclared(),
	}
}

// ConsumerNamespace returns the namespace that shows the quota of a consumer, or "" if that is not known.
func (c *Catalog) ConsumerNamespace(consumer quotav1alpha1.ConsumerRef) string {
	if c.ConsumerNamespaces == nil {
		return ""
	}
	return c.ConsumerNamespaces.Of(consumer)
}
