// Package quotacache knows what the ResourceQuotas of every namespace give, from a watch, and exactly at which
// resource versions: whoever acts on it can tell whether somebody else knew more. Namespaces are called
// projects where allocations select them.
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

// deletedTTL is how long it is remembered that a ResourceQuota was deleted: longer than a raise of it is pending, which
// was created and deleted before anybody looked.
const deletedTTL = 5 * time.Minute

// Cache is safe for concurrent use.
type Cache struct {
	client   kubernetes.Interface
	exempt   []string
	handlers []func(before, after labels.Set)
	synced   chan struct{}

	mu       sync.RWMutex
	versions quotav1alpha1.ObservedResourceQuotas
	labels   map[string]labels.Set                // of the namespaces that count; never nil
	quotas   map[string]map[string]*resourceQuota // by namespace and name
	deleted  *cache.Expiring                      // the UIDs of ResourceQuotas that were deleted

	// refreshing is held by who refreshes, and refreshed is when the last one began.
	refreshing chan struct{}
	refreshed  time.Time
}

// resourceQuota is what is kept of a ResourceQuota.
type resourceQuota struct {
	version allocation.QuotaVersion
	scopes  allocation.Scopes
	hard    corev1.ResourceList
}

// isSame tells whether both give the same; either may be nil.
func (q *resourceQuota) isSame(other *resourceQuota) bool {
	if q == nil || other == nil {
		return q == other
	}
	return q.version.UID == other.version.UID && q.scopes == other.scopes && quota.Equals(q.hard, other.hard)
}

// New returns a cache that leaves out the namespaces of the system. Register handlers, then call Run.
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

// OnChange registers f to be called after a namespace was changed, or what a ResourceQuota in it gives, with the
// labels that the namespace had before and has now; those of one that is not there are nil. It must return quickly.
func (c *Cache) OnChange(f func(before, after labels.Set)) { c.handlers = append(c.handlers, f) }

// WaitForSync waits until everything is known that there was when Run was called.
func (c *Cache) WaitForSync(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of namespaces and ResourceQuotas: %w", ctx.Err())
	}
}

// Observe returns the projects that a selector selects, with what those of their ResourceQuotas give that have
// these scopes, and the ResourceQuotas that raises are of; all as they are at one time.
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

// largest returns, of each resource, the largest amount that one of the ResourceQuotas with these scopes gives.
func largest(quotas map[string]*resourceQuota, scopes allocation.Scopes) corev1.ResourceList {
	var largest corev1.ResourceList
	for _, q := range quotas {
		if q.scopes == scopes {
			largest = quota.Max(largest, q.hard)
		}
	}
	return largest
}

// Selected returns the names of the namespaces that a selector selects, in order.
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
