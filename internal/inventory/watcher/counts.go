package watcher

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
)

// Counts says how the existing objects of a kind count by one policy.
type Counts struct {
	// Objects is the number of objects of the kind, and Counting that of those that demand something by the policy.
	// Consumers is the number of consumers that these demand it of.
	Objects, Counting, Consumers int
	// Failed is the number of objects that the policy fails for, so that they demand nothing by it. Failure names one of
	// them, with the reason.
	Failed  int
	Failure string
}

// CountsBy returns how the existing objects count by a policy. It reports false until all of them do.
func (w *Watcher) CountsBy(p *catalog.Policy) (counts Counts, isComplete bool) {
	name := inventory.NameOf(p.Trigger)
	w.mu.Lock()
	current, _, isUndefined := w.current[name], w.next[name], w.undefined[name] > 0
	w.mu.Unlock()
	if isUndefined && current == nil {
		return Counts{}, true
	}
	if current == nil || !current.isListed.Load() || !slices.ContainsFunc(current.policies, func(other *catalog.Policy) bool {
		return other.UID == p.UID && other.Generation == p.Generation
	}) {
		return Counts{}, false
	}

	counts.Objects = current.target.Len()
	counts.Counting, counts.Consumers = current.target.CountedBy(p.Name)
	counts.Failed, counts.Failure = current.failures.of(p.Name)
	return counts, true
}

// Uncounted returns the kinds under policies whose objects are not in the inventory, although there may be some: it has
// no list of them yet, or Bursar may not list them.
func (w *Watcher) Uncounted() []schema.GroupVersionKind {
	return slices.DeleteFunc(w.Catalog.CountedKinds(), func(kind schema.GroupVersionKind) bool {
		name := inventory.NameOf(kind)
		return w.IsListed(name) || w.undefinedAt(name) > 0
	})
}

// failures are the objects that policies fail for.
type failures struct {
	mu       sync.Mutex
	byPolicy map[string]map[types.UID]string
}

// set notes the failures for an object, by policy.
func (f *failures) set(about evaluator.Object, errs map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeLocked(about.UID)
	for policy, err := range errs {
		if f.byPolicy == nil {
			f.byPolicy = map[string]map[types.UID]string{}
		}
		if f.byPolicy[policy] == nil {
			f.byPolicy[policy] = map[types.UID]string{}
		}
		f.byPolicy[policy][about.UID] = fmt.Sprintf("%s: %v", about, err)
	}
}

// remove forgets an object that is gone.
func (f *failures) remove(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeLocked(uid)
}

func (f *failures) removeLocked(uid types.UID) {
	for _, objects := range f.byPolicy {
		delete(objects, uid)
	}
}

// retain forgets all objects that a list does not have.
func (f *failures) retain(listed []inventory.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.byPolicy) == 0 {
		return
	}
	exists := make(map[types.UID]bool, len(listed))
	for i := range listed {
		exists[listed[i].UID] = true
	}
	for _, objects := range f.byPolicy {
		maps.DeleteFunc(objects, func(uid types.UID, _ string) bool { return !exists[uid] })
	}
}

// of returns how many objects a policy fails for, and one of them with the reason.
func (f *failures) of(policy string) (count int, one string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects := f.byPolicy[policy]
	for _, failure := range objects {
		if one == "" || failure < one {
			one = failure
		}
	}
	return len(objects), one
}
