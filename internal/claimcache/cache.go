package claimcache

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Cache holds the compact form of every claim. It is safe for concurrent use.
type Cache struct {
	synced   chan struct{}
	syncOnce sync.Once
	handlers []func(before, after *Claim)

	mu         sync.RWMutex
	byName     map[types.NamespacedName]*Claim
	byObject   map[types.UID][]*Claim
	byConsumer map[quotav1alpha1.ConsumerRef]map[*Claim]struct{}
	kinds      map[schema.GroupKind]int
}

var _ cache.TransformingStore = (*store)(nil)

// New returns an empty cache. Register handlers, then call Run.
func New() *Cache {
	return &Cache{
		synced:     make(chan struct{}),
		byName:     map[types.NamespacedName]*Claim{},
		byObject:   map[types.UID][]*Claim{},
		byConsumer: map[quotav1alpha1.ConsumerRef]map[*Claim]struct{}{},
		kinds:      map[schema.GroupKind]int{},
	}
}

// OnChange registers f to be called, in order, after a claim appeared (before is nil), changed
// or went away (after is nil). It must return quickly. A claim that was replaced by another of
// the same name is reported as gone first.
func (c *Cache) OnChange(f func(before, after *Claim)) { c.handlers = append(c.handlers, f) }

// Run follows the API server until ctx ends.
func (c *Cache) Run(ctx context.Context, client rest.Interface) {
	newReflector(client, &store{c}).RunWithContext(ctx)
}

// WaitForSync waits until every claim that existed when Run was called is known.
func (c *Cache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of claims: %w", ctx.Err())
	}
}

// HasSynced tells whether WaitForSync would return at once.
func (c *Cache) HasSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// Get returns the claim of that name, or nil.
func (c *Cache) Get(name types.NamespacedName) *Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byName[name]
}

// ForObject returns the claims that policies made for an object.
func (c *Cache) ForObject(uid types.UID) []*Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]*Claim(nil), c.byObject[uid]...)
}

// ForConsumer returns the claims of a consumer that keep accepts, in no order.
func (c *Cache) ForConsumer(consumer quotav1alpha1.ConsumerRef, keep func(*Claim) bool) []*Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var claims []*Claim
	for claim := range c.byConsumer[consumer] {
		if keep(claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// Select returns all claims that keep accepts, in no order.
func (c *Cache) Select(keep func(*Claim) bool) []*Claim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var claims []*Claim
	for _, claim := range c.byName {
		if keep(claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// Kinds returns the kinds of the objects that policies' claims pay for.
func (c *Cache) Kinds() []schema.GroupKind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	kinds := make([]schema.GroupKind, 0, len(c.kinds))
	for kind := range c.kinds {
		kinds = append(kinds, kind)
	}
	return kinds
}

// store is the side of the cache that the reflector writes to.
type store struct{ *Cache }

// Transformer implements [cache.TransformingStore]: even a first list of all claims is held
// in compact form only.
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
	before := s.swap(claim.NamespacedName, claim)
	if before != nil && before.UID != claim.UID {
		s.tell(before, nil)
		before = nil
	}
	s.tell(before, claim)
	return nil
}

func (s *store) Delete(obj any) error {
	claim, err := compact(obj)
	if err != nil {
		return err
	}
	if before := s.swap(claim.NamespacedName, nil); before != nil {
		s.tell(before, nil)
	}
	return nil
}

// Replace makes the claims those of a full list.
func (s *store) Replace(list []any, _ string) error {
	listed := make(map[types.NamespacedName]struct{}, len(list))
	for _, obj := range list {
		claim, err := compact(obj)
		if err != nil {
			return err
		}
		listed[claim.NamespacedName] = struct{}{}
		if err := s.put(claim); err != nil {
			return err
		}
	}
	for _, claim := range s.Select(func(claim *Claim) bool { _, ok := listed[claim.NamespacedName]; return !ok }) {
		if err := s.Delete(claim); err != nil {
			return err
		}
	}
	s.syncOnce.Do(func() { close(s.synced) })
	return nil
}

func (s *store) tell(before, after *Claim) {
	for _, handler := range s.handlers {
		handler(before, after)
	}
}

// swap puts claim, or nothing, under a name and returns what was there.
func (c *Cache) swap(name types.NamespacedName, claim *Claim) (before *Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before = c.byName[name]; before != nil {
		c.unindex(before)
		delete(c.byName, name)
	}
	if claim != nil {
		c.byName[name] = claim
		c.index(claim)
	}
	return before
}
