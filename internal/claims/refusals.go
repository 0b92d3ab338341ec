package claims

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RefusalsMax is how often in a row a namespace may refuse claims before its claims are made in the system namespace.
// Its own namespace is still tried first for each claim, and so is in use again once it accepts claims.
const RefusalsMax = 3

// Refusals counts how often in a row each namespace has refused claims. The zero value is empty. It is safe for
// concurrent use.
type Refusals struct {
	mu          sync.Mutex
	byNamespace map[string]int
}

// Add counts a refusal, and returns the new count.
func (r *Refusals) Add(namespace string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byNamespace == nil {
		r.byNamespace = map[string]int{}
	}
	r.byNamespace[namespace]++
	return r.byNamespace[namespace]
}

// End forgets the refusals of a namespace that has accepted a claim.
func (r *Refusals) End(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byNamespace, namespace)
}

// IsRefusal reports whether an error means that a ResourceQuota or another webhook refused a create. A webhook may
// answer with any of these.
func IsRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
