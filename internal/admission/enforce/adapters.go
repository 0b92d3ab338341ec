package enforce

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/naming"
)

// EffectiveGrantEvents records denials as events on effective grants.
type EffectiveGrantEvents struct {
	Catalog *catalog.Catalog
	Events  *events.Latest
}

// RecordDenial implements [Denials]. It records a denial on the effective grant of the resource type, in the
// namespace of the consumer's quota objects. The effective grant may not exist, for example before the first grant.
func (e *EffectiveGrantEvents) RecordDenial(consumer quotav1alpha1.ConsumerRef, resourceType, note string) {
	name := types.NamespacedName{Namespace: e.Catalog.ConsumerNamespace(consumer), Name: naming.EffectiveGrant(consumer, resourceType)}
	e.Events.Record(&corev1.ObjectReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "EffectiveResourceGrant", Namespace: name.Namespace, Name: name.Name,
	}, quotav1alpha1.EventQuotaDenied, note)
}

// ConsumerObjects looks up consumers.
type ConsumerObjects struct {
	Kinds   *discoverycache.Cache
	Objects *objectcache.Cache
}

// ConsumerExists implements [Consumers]. It asks the API server whether a consumer exists. A consumer of an undefined
// kind may exist in another control plane.
func (c *ConsumerObjects) ConsumerExists(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (bool, error) {
	kind := schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}
	state, _, err := c.Kinds.StateOf(ctx, kind)
	if err != nil || state == discoverycache.Undefined {
		return true, err
	}
	return c.Objects.IsAlive(ctx, kind, types.NamespacedName{Namespace: consumer.Namespace, Name: consumer.Name}, "")
}
