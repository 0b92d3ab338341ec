package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
)

// Allocation is a ResourceQuotaAllocation, prepared for lookups. It is immutable.
type Allocation struct {
	Name       string
	UID        types.UID
	Generation int64
	// Selector selects the namespaces, and Scopes the ResourceQuotas in them.
	Selector labels.Selector
	Scopes   allocation.Scopes
	// Capped are the capped resources. MayLeave permits ResourceQuotas to remove them again.
	Capped   []corev1.ResourceName
	MayLeave bool
	// Revision is the revision of the catalog that added this generation.
	Revision int64
}

// SetAllocation adds or updates an allocation. It returns an error if the allocation is invalid; an invalid allocation
// caps nothing.
func (c *Catalog) SetAllocation(object *quotav1alpha1.ResourceQuotaAllocation) error {
	selector, err := metav1.LabelSelectorAsSelector(&object.Spec.Selector)
	c.mu.Lock()
	defer c.mu.Unlock()
	declared := stamp(object.UID, object.Generation)
	if c.declaredAllocations.stamps[object.Name] == declared {
		return err // only its ledger has changed, and lookups do not use that
	}
	c.revision++
	delete(c.allocations, object.Name)
	c.declaredAllocations.set(object.Name, declared)
	if err != nil {
		return fmt.Errorf("spec.selector: %w", err)
	}
	c.allocations[object.Name] = &Allocation{
		Name: object.Name, UID: object.UID, Generation: object.Generation,
		Selector: selector, Scopes: allocation.ScopesOf(&object.Spec.Allocation), Revision: c.revision,
		Capped: slices.Sorted(maps.Keys(object.Spec.Allocation.Hard)), MayLeave: object.Spec.MayLeave,
	}
	return nil
}

// RemoveAllocation removes an allocation.
func (c *Catalog) RemoveAllocation(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	delete(c.allocations, name)
	c.declaredAllocations.set(name, 0)
}

// Allocation returns the valid allocation with the name, or nil.
func (c *Catalog) Allocation(name string) *Allocation {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.allocations[name]
}

// Allocations returns all valid allocations, in no order.
func (c *Catalog) Allocations() []*Allocation {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.allocations))
}

// AllocationsFor returns the allocations that select a namespace with one of these sets of labels, ordered by name.
func (c *Catalog) AllocationsFor(sets ...labels.Set) []*Allocation {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found []*Allocation
	for _, a := range c.allocations {
		if slices.ContainsFunc(sets, func(set labels.Set) bool { return set != nil && a.Selector.Matches(set) }) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b *Allocation) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// AllocationsVersion returns the digest of the declared allocations, valid or not. It is the same in every process
// with the same allocations, and 0 if there are none.
func (c *Catalog) AllocationsVersion() Digest {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.declaredAllocations.digest
}

// HasAllocations reports whether the catalog has all allocations declared by a version.
func (c *Catalog) HasAllocations(version Digest) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.declaredAllocations.had(version)
}

// MarkAllocationsPassed records a version as passed, although the catalog never had it.
func (c *Catalog) MarkAllocationsPassed(version Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declaredAllocations.past.Add(version, nil)
}

// allocationsVersionOf returns the version of a catalog with only these objects.
func allocationsVersionOf(objects []quotav1alpha1.ResourceQuotaAllocation) (version Digest) {
	for i := range objects {
		version ^= stamp(objects[i].UID, objects[i].Generation)
	}
	return version
}
