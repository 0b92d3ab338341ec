package operator

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// namedObjectLives asks the API server whether the object lives that a claim names which was made directly.
//
// The claim's owner reference tells the UID of the object. Without one, an object that was created after the deletion of
// the claim is another object. An object that only its own claims keep, because their owner references block its deletion
// in the foreground, is as good as gone: it would wait for the claim, and the claim for it. For the same reason a claim
// does not wait for the namespace that it is in.
func (p *parts) namedObjectLives(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error) {
	ref := claim.Spec.ResourceRef
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	if kind == (schema.GroupKind{Kind: "Namespace"}) && ref.Name == claim.Namespace {
		return false, nil
	}
	object, err := p.objects.Find(ctx, kind, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	switch {
	case apierrors.IsForbidden(err):
		p.log.Info("a deleted claim gives back its charge although its object may exist, which Bursar may not read",
			"claim", claim.Namespace+"/"+claim.Name, "err", err.Error())
		return false, nil
	case object == nil || err != nil:
		return false, err
	}
	owner := ownerNamedBy(claim)
	switch {
	case owner == nil:
		return claim.DeletionTimestamp == nil || !object.CreationTimestamp.After(claim.DeletionTimestamp.Time), nil
	case owner.UID != object.UID:
		return false, nil
	default:
		isBlocked := owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion && keptByDependentsAlone(object)
		return !isBlocked, nil
	}
}

// ownerNamedBy returns the owner reference of a claim to the object of its spec.resourceRef, or nil.
func ownerNamedBy(claim *quotav1alpha1.ResourceClaim) *metav1.OwnerReference {
	ref := claim.Spec.ResourceRef
	for i := range claim.OwnerReferences {
		owner := &claim.OwnerReferences[i]
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
		if kind == (schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}) && owner.Name == ref.Name {
			return owner
		}
	}
	return nil
}

// keptByDependentsAlone reports whether a deleted object is kept by the garbage collector alone, until it has deleted what
// the object owns.
func keptByDependentsAlone(object *metav1.PartialObjectMetadata) bool {
	return object.DeletionTimestamp != nil && len(object.Finalizers) == 1 && object.Finalizers[0] == metav1.FinalizerDeleteDependents
}
