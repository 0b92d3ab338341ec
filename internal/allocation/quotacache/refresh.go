package quotacache

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refresh makes sure that the cache is not older than since. It lists everything from the API server, unless another
// call did so after since. Concurrent calls share the answer.
func (c *Cache) Refresh(ctx context.Context, since time.Time) error {
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return fmt.Errorf("wait for a list of namespaces and ResourceQuotas: %w", ctx.Err())
	}
	if !c.refreshed.Before(since) {
		return nil
	}
	began := time.Now()
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the namespaces: %w", err)
	}
	quotas, err := c.client.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the ResourceQuotas: %w", err)
	}
	var objects []metav1.Object
	for i := range namespaces.Items {
		objects = append(objects, &namespaces.Items[i])
	}
	c.replaceNamespaces(objects, namespaces.ResourceVersion)
	objects = nil
	for i := range quotas.Items {
		objects = append(objects, &quotas.Items[i])
	}
	c.replaceQuotas(objects, quotas.ResourceVersion)
	c.refreshed = began
	return nil
}
