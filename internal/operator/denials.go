package operator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/naming"
)

// recordDenial records a denial on the effective grant of the resource type, in the namespace that shows the quota of the
// consumer. The effective grant need not exist, for example while nothing is granted.
func (p *parts) recordDenial(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType, note string) {
	name := types.NamespacedName{Namespace: p.catalog.ConsumerNamespace(consumer), Name: naming.EffectiveGrant(consumer, resourceType)}
	shown := &corev1.ObjectReference{
		APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "EffectiveResourceGrant", Namespace: name.Namespace, Name: name.Name,
	}
	var effective quotav1alpha1.EffectiveResourceGrant
	if err := p.manager.GetClient().Get(ctx, name, &effective); err == nil {
		shown.UID = effective.UID
	}
	p.denials.Record(shown, enforce.EventReasonDenied, note)
}

// consumerExists asks the API server whether a consumer exists. If its kind is not defined here, it may exist elsewhere.
func (p *parts) consumerExists(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (bool, error) {
	kind := schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}
	state, _, err := p.kinds.StateOf(ctx, kind)
	if err != nil || state == discoverycache.Undefined {
		return true, err
	}
	return p.objects.Lives(ctx, kind, types.NamespacedName{Namespace: consumer.Namespace, Name: consumer.Name}, "")
}
