package bucket

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// namespaceWaiters remembers the consumers with quota waiting for a namespace, by namespace, each with the UIDs of the
// reported grants. The zero value is ready to use, by several goroutines at once.
type namespaceWaiters struct {
	mu          sync.Mutex
	byNamespace map[string]map[quotav1alpha1.ConsumerRef]map[string]struct{}
}

// add records a waiting consumer. It keeps the reported grants.
func (w *namespaceWaiters) add(namespace string, consumer quotav1alpha1.ConsumerRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byNamespace == nil {
		w.byNamespace = map[string]map[quotav1alpha1.ConsumerRef]map[string]struct{}{}
	}
	if w.byNamespace[namespace] == nil {
		w.byNamespace[namespace] = map[quotav1alpha1.ConsumerRef]map[string]struct{}{}
	}
	if w.byNamespace[namespace][consumer] == nil {
		w.byNamespace[namespace][consumer] = map[string]struct{}{}
	}
}

// remove forgets a waiting consumer.
func (w *namespaceWaiters) remove(namespace string, consumer quotav1alpha1.ConsumerRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byNamespace[namespace], consumer)
	if len(w.byNamespace[namespace]) == 0 {
		delete(w.byNamespace, namespace)
	}
}

// consumers returns the consumers waiting for a namespace.
func (w *namespaceWaiters) consumers(namespace string) []quotav1alpha1.ConsumerRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.byNamespace[namespace]))
}

// unreported returns the grants of a waiting consumer without a report, and marks them as reported.
func (w *namespaceWaiters) unreported(namespace string, consumer quotav1alpha1.ConsumerRef, grants []ledger.Grant) []ledger.Grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	var untold []ledger.Grant
	reported := map[string]struct{}{}
	for _, grant := range grants {
		if _, before := w.byNamespace[namespace][consumer][grant.UID]; !before {
			untold = append(untold, grant)
		}
		reported[grant.UID] = struct{}{}
	}
	if _, waits := w.byNamespace[namespace][consumer]; waits {
		w.byNamespace[namespace][consumer] = reported
	}
	return untold
}

// namespaceExists reports whether the namespace of a consumer exists. If not, the consumer waits for it from here on.
func (c *Controller) namespaceExists(ctx context.Context, namespace string, consumer quotav1alpha1.ConsumerRef) (bool, error) {
	// In this order: a namespace created in between is either found or noticed.
	c.waiters.add(namespace, consumer)
	err := c.Client.Get(ctx, client.ObjectKey{Name: namespace}, anyNamespace())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up namespace %s: %w", namespace, err)
	}
	c.waiters.remove(namespace, consumer)
	return true, nil
}

// reportNoNamespace emits an event, once for each grant of a consumer, because its quota has no namespace. All objects
// in a deleted namespace are gone, so the index forgets all except the required ones.
func (c *Controller) reportNoNamespace(namespace string, consumer quotav1alpha1.ConsumerRef, view ledgerView) {
	waits := false
	for resourceType, q := range view.quotas {
		if q.required {
			waits = true
		} else {
			c.index.forget(consumer, resourceType, ledger.Dimensions{})
		}
	}
	if !waits {
		c.waiters.remove(namespace, consumer)
		return
	}
	for _, grant := range c.waiters.unreported(namespace, consumer, view.grants) {
		c.Events.Eventf(&corev1.ObjectReference{
			APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceGrant",
			Namespace: grant.Namespace, Name: grant.Name, UID: types.UID(grant.UID),
		}, nil, corev1.EventTypeWarning, quotav1alpha1.EventNamespaceMissing, "Show",
			"Namespace %s for the quota of %s %s does not exist; create it", namespace, consumer.Kind, consumer.Name)
	}
}

// namespaceAppeared publishes the quota of the consumers waiting for a namespace. It has the signature of an informer's
// handler.
func (c *Controller) namespaceAppeared(object any) {
	for _, consumer := range c.waiters.consumers(object.(*metav1.PartialObjectMetadata).Name) {
		c.Publish(consumer)
	}
}

// anyNamespace returns an empty metadata object for a namespace.
func anyNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}
