package claimcache

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Follower hears of all claims together with a cache, through the same lists and watches. Its store gets every claim as
// a *[Claim], shortly before the cache does.
type Follower interface {
	cache.ReflectorStore
	cache.ResourceVersionUpdater
	// ListBegins is called before each list.
	ListBegins()
	// WatchBegins is called at the beginning of each watch. The result replaces the watch.
	WatchBegins(opened watch.Interface) watch.Interface
}

// RunWith is [Cache.Run] with a follower.
func (c *Cache) RunWith(ctx context.Context, client rest.Interface, f Follower) {
	s := newSource(client, c.selector)
	list, open := s.ListWithContextFunc, s.WatchFuncWithContext
	s.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		f.ListBegins()
		return list(ctx, o)
	}
	s.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		opened, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		return f.WatchBegins(opened), nil
	}
	newReflector(s, &followedStore{store{c}, f}).RunWithContext(ctx)
}

// followedStore passes on to the follower what the cache gets. What the follower refuses, the cache does not get: the
// reflector lists again.
type followedStore struct {
	store
	Follower Follower
}

var (
	_ cache.TransformingStore      = (*followedStore)(nil)
	_ cache.ResourceVersionUpdater = (*followedStore)(nil)
)

// Add implements [cache.ReflectorStore].
func (s *followedStore) Add(obj any) error { return s.pass(obj, s.Follower.Add, s.store.Add) }

// Update implements [cache.ReflectorStore].
func (s *followedStore) Update(obj any) error { return s.pass(obj, s.Follower.Update, s.store.Update) }

// Delete implements [cache.ReflectorStore].
func (s *followedStore) Delete(obj any) error { return s.pass(obj, s.Follower.Delete, s.store.Delete) }

func (s *followedStore) pass(obj any, receivers ...func(any) error) error {
	claim, err := compact(obj)
	if err != nil {
		return err
	}
	for _, receive := range receivers {
		if err := receive(claim); err != nil {
			return err
		}
	}
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *followedStore) Replace(list []any, version string) error {
	claims := make([]any, len(list))
	for i, obj := range list {
		claim, err := compact(obj)
		if err != nil {
			return err
		}
		claims[i] = claim
	}
	if err := s.Follower.Replace(claims, version); err != nil {
		return err //nolint:wrapcheck // the reflector logs it
	}
	return s.store.Replace(claims, version)
}

// UpdateResourceVersion implements [cache.ResourceVersionUpdater].
func (s *followedStore) UpdateResourceVersion(version string) {
	s.Follower.UpdateResourceVersion(version)
}
