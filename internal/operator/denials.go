package operator

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/naming"
)

// surroundings are what the webhook and adoption ask of the cluster and the other replicas.
type surroundings struct {
	*parts
	operator *Operator
}

// May implements [enforce.Permissions].
func (p surroundings) May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return p.operator.may(ctx, user, what)
}

// Forward implements [enforce.Replicas].
func (p surroundings) Forward(ctx context.Context, consumer quotav1alpha1.ConsumerRef, path string, review []byte) ([]byte, bool) {
	return p.peers.Forward(ctx, consumer, path, review)
}

// Leads implements [adoption.Leadership].
func (p surroundings) Leads() bool { return p.leads() }

// Has implements [adoption.Reviews].
func (p surroundings) Has(object types.UID, policy *catalog.Policy) bool {
	return p.reviewed.Has(object, policy)
}

// Elsewhere implements [adoption.Reviews].
func (p surroundings) Elsewhere(ctx context.Context, objects []types.UID, policy *catalog.Policy) []types.UID {
	return p.reviewed.AskOthers(ctx, p.peers, objects, policy)
}

// RecordDenial implements [enforce.Denials]: it records a denial on the effective grant of the resource type, in the namespace that shows the quota of the
// consumer. The effective grant need not exist, for example while nothing is granted.
func (p surroundings) RecordDenial(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType, note string) {
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

// ConsumerExists implements [enforce.Consumers]: it asks the API server whether a consumer exists. If its kind is not defined here, it may exist elsewhere.
func (p surroundings) ConsumerExists(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (bool, error) {
	kind := schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}
	state, _, err := p.kinds.StateOf(ctx, kind)
	if err != nil || state == discoverycache.Undefined {
		return true, err
	}
	return p.objects.Lives(ctx, kind, types.NamespacedName{Namespace: consumer.Namespace, Name: consumer.Name}, "")
}
