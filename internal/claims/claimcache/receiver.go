package claimcache

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Receiver gets all claims together with a cache, through the same lists and watches. Its store gets every claim as a
// *[Claim], shortly before the cache does.
type Receiver interface {
	cache.ReflectorStore
	cache.ResourceVersionUpdater
	// ListBegins is called before each list.
	ListBegins()
	// WatchBegins is called at the beginning of each watch. The result replaces the watch.
	WatchBegins(opened watch.Interface) watch.Interface
	// EventBegins is called before each list or event is stored, and its result once both have it.
	EventBegins() (end func())
}

// RunWith is [Cache.Run] with a receiver.
func (c *Cache) RunWith(ctx context.Context, client rest.Interface, r Receiver) {
	s := newSource(client, c.selector)
	list, open := s.ListWithContextFunc, s.WatchFuncWithContext
	s.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		r.ListBegins()
		return list(ctx, o)
	}
	s.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		opened, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		return r.WatchBegins(opened), nil
	}
	newReflector(s, &sharedStore{store{c}, r}).RunWithContext(ctx)
}

// sharedStore passes on to the receiver what the cache gets. A list that the receiver refuses, the cache does not get:
// the reflector lists again.
type sharedStore struct {
	store
	receiver Receiver
}

var (
	_ cache.TransformingStore      = (*sharedStore)(nil)
	_ cache.ResourceVersionUpdater = (*sharedStore)(nil)
)

// Add implements [cache.ReflectorStore].
func (s *sharedStore) Add(obj any) error { return s.pass(obj, s.receiver.Add, s.store.Add) }

// Update implements [cache.ReflectorStore].
func (s *sharedStore) Update(obj any) error { return s.pass(obj, s.receiver.Update, s.store.Update) }

// Delete implements [cache.ReflectorStore].
func (s *sharedStore) Delete(obj any) error { return s.pass(obj, s.receiver.Delete, s.store.Delete) }

func (s *sharedStore) pass(obj any, stores ...func(any) error) error {
	defer s.receiver.EventBegins()()
	claim, err := compact(obj)
	if err != nil {
		return err
	}
	for _, put := range stores {
		if err := put(claim); err != nil {
			return err
		}
	}
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *sharedStore) Replace(list []any, version string) error {
	defer s.receiver.EventBegins()()
	claims := make([]any, len(list))
	for i, obj := range list {
		claim, err := compact(obj)
		if err != nil {
			return err
		}
		claims[i] = claim
	}
	if err := s.receiver.Replace(claims, version); err != nil {
		return err //nolint:wrapcheck // the reflector logs it
	}
	return s.store.Replace(claims, version)
}

// UpdateResourceVersion implements [cache.ResourceVersionUpdater].
func (s *sharedStore) UpdateResourceVersion(version string) {
	s.receiver.UpdateResourceVersion(version)
}
