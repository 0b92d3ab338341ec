// Package quotacache caches the amounts of all ResourceQuotas, from a watch, with the exact resource versions: a
// process can compare its observation with another one's. The operator builds the cache for the allocation store, the
// webhook on ResourceQuotas and the allocation controller.
package quotacache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/kubernetes"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/kube/namespaces"
)

// deletedTTL is how long the cache remembers a deleted ResourceQuota. It is longer than a change can be pending: the
// whole life of the ResourceQuota may fall between two observations.
const deletedTTL = 5 * time.Minute

// Cache is a cache of namespaces and ResourceQuotas. It is safe for concurrent use.
type Cache struct {
	client   kubernetes.Interface
	exempt   []string
	handlers []func(before, after labels.Set)
	synced   chan struct{}

	mu       sync.RWMutex
	versions quotav1alpha1.ObservedResourceQuotas
	labels   map[string]labels.Set                // without exempt namespaces; never nil
	quotas   map[string]map[string]*resourceQuota // by namespace and name
	deleted  *cache.Expiring                      // the UIDs of deleted ResourceQuotas

	// refreshing has an element during a refresh, and refreshed is the start of the latest one.
	refreshing chan struct{}
	refreshed  time.Time
}

// resourceQuota is the cached part of a ResourceQuota.
type resourceQuota struct {
	version allocation.QuotaVersion
	scopes  allocation.Scopes
	hard    corev1.ResourceList
}

// isSame reports whether both give the same amounts; either may be nil.
func (q *resourceQuota) isSame(other *resourceQuota) bool {
	if q == nil || other == nil {
		return q == other
	}
	return q.version.UID == other.version.UID && q.scopes == other.scopes && quota.Equals(q.hard, other.hard)
}

// New returns a cache without the namespaces of the system. Register handlers, then call Run.
func New(client kubernetes.Interface, systemNamespace string) *Cache {
	return &Cache{
		client:  client,
		exempt:  namespaces.Exempt(systemNamespace),
		synced:  make(chan struct{}),
		labels:  map[string]labels.Set{},
		quotas:  map[string]map[string]*resourceQuota{},
		deleted: cache.NewExpiring(),

		refreshing: make(chan struct{}, 1),
	}
}

// OnChange registers f. The cache calls it after a change of a namespace or of the amounts of its ResourceQuotas, with
// the former and the present labels of the namespace. Labels of a missing namespace are nil. f must return quickly.
func (c *Cache) OnChange(f func(before, after labels.Set)) { c.handlers = append(c.handlers, f) }

// WaitForSync waits until the cache has everything from the time of the call of Run.
func (c *Cache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of namespaces and ResourceQuotas: %w", ctx.Err())
	}
}

// Observe returns, as of one time, the namespaces that match the selector, with the amounts of their ResourceQuotas
// with these scopes, and the ResourceQuotas of the given changes.
func (c *Cache) Observe(selector labels.Selector, scopes allocation.Scopes, changes []allocation.QuotaChange) allocation.Observation {
	c.mu.RLock()
	defer c.mu.RUnlock()
	o := allocation.Observation{Versions: c.versions, Used: map[string]corev1.ResourceList{},
		Quotas: map[types.NamespacedName]allocation.QuotaVersion{}, Deleted: map[types.UID]bool{}}
	for namespace, set := range c.labels {
		if selector.Matches(set) {
			o.Used[namespace] = largest(c.quotas[namespace], scopes)
		}
	}
	for _, change := range changes {
		if q := c.quotas[change.Namespace][change.Name]; q != nil {
			o.Quotas[types.NamespacedName{Namespace: change.Namespace, Name: change.Name}] = q.version
		}
		if _, isDeleted := c.deleted.Get(change.UID); isDeleted {
			o.Deleted[change.UID] = true
		}
	}
	return o
}

// largest returns, for each resource, the largest amount in any of the ResourceQuotas with these scopes.
func largest(quotas map[string]*resourceQuota, scopes allocation.Scopes) corev1.ResourceList {
	var largest corev1.ResourceList
	for _, q := range quotas {
		if q.scopes == scopes {
			largest = quota.Max(largest, q.hard)
		}
	}
	return largest
}

// Selected returns the sorted names of the namespaces that match a selector.
func (c *Cache) Selected(selector labels.Selector) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var names []string
	for namespace, set := range c.labels {
		if selector.Matches(set) {
			names = append(names, namespace)
		}
	}
	slices.Sort(names)
	return names
}
