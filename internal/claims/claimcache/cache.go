package claimcache

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Cache holds the compact form of every claim of record, or of every view. It is safe for concurrent use.
type Cache struct {
	// selector is the label selector of the claims.
	selector string

	synced   chan struct{}
	syncOnce sync.Once
	handlers []func(before, after *Claim)

	// changing serializes changes of the cache together with their handlers, so handlers run in order.
	changing sync.Mutex

	mu         sync.RWMutex
	byName     map[types.NamespacedName]*Claim
	byObject   map[types.UID][]*Claim
	byConsumer map[quotav1alpha1.ConsumerRef]map[*Claim]struct{}
	// kinds counts the claims of policies by the kind of their object, and policies counts all claims by the label of
	// their policy.
	kinds    map[schema.GroupKind]int
	policies map[string]int
	// incomplete are the claims without the labels of their consumer, from an earlier version, or without the finalizer,
	// after an uninstallation. Claims with a deletion under way do not count.
	incomplete map[*Claim]struct{}
}

var _ cache.TransformingStore = (*store)(nil)

// New returns an empty cache of the claims that hold charges. Register handlers, then call Run or RunWith.
func New() *Cache { return newCache(OfRecord().String()) }

// OfRecord selects the claims that hold charges, and not the views.
func OfRecord() labels.Selector {
	isNoView, err := labels.NewRequirement(quotav1alpha1.LabelView, selection.DoesNotExist, nil)
	if err != nil {
		panic(err) // the key is valid
	}
	return labels.NewSelector().Add(*isNoView)
}

// NewViews returns an empty cache of views: claims that show what an object demands. Register handlers, then call Run.
func NewViews() *Cache { return newCache(quotav1alpha1.LabelView) }

func newCache(selector string) *Cache {
	return &Cache{
		selector:   selector,
		synced:     make(chan struct{}),
		byName:     map[types.NamespacedName]*Claim{},
		byObject:   map[types.UID][]*Claim{},
		byConsumer: map[quotav1alpha1.ConsumerRef]map[*Claim]struct{}{},
		kinds:      map[schema.GroupKind]int{},
		policies:   map[string]int{},
		incomplete: map[*Claim]struct{}{},
	}
}

// OnChange registers f. The cache calls it, in order, after a claim appeared (before is nil), changed or disappeared
// (after is nil). It must return quickly. If another claim of the same name replaces a claim, the cache first reports
// the removal.
func (c *Cache) OnChange(f func(before, after *Claim)) { c.handlers = append(c.handlers, f) }

// Run follows the API server until ctx ends.
func (c *Cache) Run(ctx context.Context, client rest.Interface) {
	newReflector(newSource(client, c.selector), &store{c}).RunWithContext(ctx)
}

// WaitForSync waits until the cache has every claim from before the call of Run.
func (c *Cache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of claims: %w", ctx.Err())
	}
}

// HasSynced reports whether WaitForSync would return at once.
func (c *Cache) HasSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// Get returns the claim with the name, or nil.
func (c *Cache) Get(name types.NamespacedName) *Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byName[name]
}

// ForObject returns the claims of all policies for an object.
func (c *Cache) ForObject(uid types.UID) []*Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]*Claim(nil), c.byObject[uid]...)
}

// ForConsumer returns the claims of a consumer that match accepts, in no order.
func (c *Cache) ForConsumer(consumer quotav1alpha1.ConsumerRef, match func(*Claim) bool) []*Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var claims []*Claim
	for claim := range c.byConsumer[consumer] {
		if match(claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// Incomplete returns up to max claims that lack the finalizer or the labels of their consumer, and that match
// accepts. It leaves out claims with a deletion under way.
func (c *Cache) Incomplete(max int, match func(*Claim) bool) []*Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var claims []*Claim
	seen := 0
	for claim := range c.incomplete {
		if seen++; len(claims) == max || seen > lockedMax {
			break
		}
		if match(claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// lockedMax bounds the claims read before the cache releases its lock for a moment.
const lockedMax = 1000

// CountOf returns the number of claims with the label of a policy.
func (c *Cache) CountOf(policy string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.policies[policy]
}

// Select returns all claims that match accepts, in no order. It reads every claim, so it takes long. It lets other
// goroutines change the cache in between: the result may or may not have a claim added or removed meanwhile.
func (c *Cache) Select(match func(*Claim) bool) []*Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var claims []*Claim
	seen := 0
	for _, claim := range c.byName {
		if seen++; seen%lockedMax == 0 {
			c.mu.RUnlock()
			c.mu.RLock()
		}
		if match(claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// Kinds returns the kinds of the objects of policies' claims.
func (c *Cache) Kinds() []schema.GroupKind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	kinds := make([]schema.GroupKind, 0, len(c.kinds))
	for kind := range c.kinds {
		kinds = append(kinds, kind)
	}
	return kinds
}

// store is the write interface of the cache for the reflector.
type store struct{ *Cache }

// Transformer implements [cache.TransformingStore]: even the first list of all claims is held only in compact form.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return compact(obj) }
}

func compact(obj any) (*Claim, error) {
	switch claim := obj.(type) {
	case *Claim:
		return claim, nil
	case item:
		return claim.Claim, nil
	case *quotav1alpha1.ResourceClaim:
		return Compact(claim), nil
	case cache.DeletedFinalStateUnknown:
		return compact(claim.Obj)
	default:
		return nil, fmt.Errorf("claims: unexpected object of type %T", obj)
	}
}

func (s *store) Add(obj any) error    { return s.put(obj) }
func (s *store) Update(obj any) error { return s.put(obj) }
func (s *store) Resync() error        { return nil }

func (s *store) put(obj any) error {
	claim, err := compact(obj)
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.set(claim)
	return nil
}

// set adds or replaces a claim. The caller holds changing.
func (s *store) set(claim *Claim) {
	before := s.swap(claim.NamespacedName, claim)
	if before != nil && before.UID != claim.UID {
		s.callHandlers(before, nil)
		before = nil
	}
	s.callHandlers(before, claim)
}

func (s *store) Delete(obj any) error {
	claim, err := compact(obj)
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.remove(claim.NamespacedName)
	return nil
}

// remove removes a claim. The caller holds changing.
func (s *store) remove(name types.NamespacedName) {
	if before := s.swap(name, nil); before != nil {
		s.callHandlers(before, nil)
	}
}

// Replace replaces all claims by a full list.
func (s *store) Replace(list []any, _ string) error {
	claims := make([]*Claim, len(list))
	for i, obj := range list {
		var err error
		if claims[i], err = compact(obj); err != nil {
			return err
		}
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	listed := make(map[types.NamespacedName]struct{}, len(claims))
	for _, claim := range claims {
		listed[claim.NamespacedName] = struct{}{}
		s.set(claim)
	}
	for _, claim := range s.Select(func(claim *Claim) bool { _, ok := listed[claim.NamespacedName]; return !ok }) {
		s.remove(claim.NamespacedName)
	}
	s.syncOnce.Do(func() { close(s.synced) })
	return nil
}

func (c *Cache) callHandlers(before, after *Claim) {
	for _, handler := range c.handlers {
		handler(before, after)
	}
}

// swap stores claim, or nothing, under a name and returns the previous claim.
func (c *Cache) swap(name types.NamespacedName, claim *Claim) (before *Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before = c.byName[name]; before != nil {
		c.unindex(before)
	}
	if claim == nil {
		delete(c.byName, name)
		return before
	}
	c.byName[name] = claim // replaced in the same map entry, so Select finds it
	c.index(claim)
	return before
}
