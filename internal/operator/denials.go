package operator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/kinds"
	"github.com/bursar/bursar/internal/naming"
)

// recordDenial shows a denial where the quota of the consumer is: on the effective grant of what it lacks. While nothing
// is granted there may be none, and then the event stands for itself.
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

// consumerExists asks the API server whether there is such a consumer. Of a kind that is not defined there may be
// consumers elsewhere.
func (p *parts) consumerExists(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (bool, error) {
	kind := schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}
	state, _, err := p.kinds.StateOf(ctx, kind)
	if err != nil || state == kinds.Undefined {
		return true, err
	}
	return p.objects.Lives(ctx, kind, types.NamespacedName{Namespace: consumer.Namespace, Name: consumer.Name}, "")
}
