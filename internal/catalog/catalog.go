// Package catalog indexes the declarations of administrators for decisions: the active registrations by resource
// type, the enabled policies, compiled, by the kind they protect, and the caps on ResourceQuotas. Watches fill it,
// and every protected create reads it.
//
// A generation of a policy becomes effective once the registrations allow its requests, and stays so until another
// generation is, or the policy is disabled or deleted. [Version] and [Gate] make every replica decide with policies at
// least as new as the published webhooks.
//
// Webhooks, controllers and packages claims and evaluator import it. Of Bursar it imports only the API types and pure
// packages.
package catalog

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// Catalog is safe for concurrent use.
type Catalog struct {
	// ExceededAdvice is the platform's advice on exceeded quota, with {{name}} for the consumer's name. Set it once,
	// before use. Empty: general advice.
	ExceededAdvice string
	// ConsumerNamespaces, if set, names the namespaces with the quota objects of consumers. Set it once, before use.
	ConsumerNamespaces *naming.ConsumerNamespaces

	mu            sync.RWMutex
	registrations map[string]*Registration // by name
	byType        map[string]*Registration // by resource type
	declarations  map[string]*declaration  // of policies, by name
	byKind        map[schema.GroupVersionKind][]*Policy
	byGroupKind   map[schema.GroupKind][]*Policy
	// undecidable are the kinds with an enforcing policy that may be effective in another replica, and is not here.
	undecidable map[schema.GroupVersionKind]undecidable
	revision    int64
	allocations map[string]*Allocation // by name

	policyObjects policyObjects
	// All declared objects, valid or not.
	declaredPolicies, declaredRegistrations, declaredAllocations declared
}

// New returns an empty catalog.
func New() *Catalog {
	return &Catalog{
		registrations: map[string]*Registration{},
		byType:        map[string]*Registration{},
		declarations:  map[string]*declaration{},
		byKind:        map[schema.GroupVersionKind][]*Policy{},
		byGroupKind:   map[schema.GroupKind][]*Policy{},
		allocations:   map[string]*Allocation{},

		policyObjects:         policyObjects{byName: map[string]knownObject{}},
		declaredPolicies:      newDeclared(),
		declaredRegistrations: newDeclared(),
		declaredAllocations:   newDeclared(),
	}
}

// ConsumerNamespace returns the namespace with the quota objects of a consumer, or "" if it is unknown.
func (c *Catalog) ConsumerNamespace(consumer quotav1alpha1.ConsumerRef) string {
	if c.ConsumerNamespaces == nil {
		return ""
	}
	return c.ConsumerNamespaces.Of(consumer)
}
