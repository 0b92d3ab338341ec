package engine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// namedObjectExists asks the API server whether the object of a directly created claim exists. A claim may be for no
// object.
//
// The claim's owner reference has the UID of the object. Without one, an object created after the deletion of the
// claim is another object, as is one with another UID than at an earlier check.
//
// An object in foreground deletion with only dependents left counts as deleted. Otherwise the object would wait for
// its claim, and the claim for the object. For the same reason a claim does not wait for its own namespace.
func (e *Engine) namedObjectExists(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (bool, error) {
	if !claim.Spec.HasObject() {
		return false, nil
	}
	ref := claim.Spec.ResourceRef
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	if kind == (schema.GroupKind{Kind: "Namespace"}) && ref.Name == claim.Namespace {
		return false, nil
	}
	object, err := e.Objects.Find(ctx, kind, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	switch {
	case apierrors.IsForbidden(err):
		e.Log.Info("a deleted claim returns its charge although its object may exist; Bursar may not read the object",
			"claim", claim.Namespace+"/"+claim.Name, "err", err.Error())
		return false, nil
	case object == nil || err != nil:
		return false, err
	}
	owner := ownerNamedBy(claim)
	switch {
	case owner == nil && claim.DeletionTimestamp == nil:
		return true, nil
	case owner == nil:
		isLater := object.CreationTimestamp.After(claim.DeletionTimestamp.Time)
		return !isLater && e.named.isSame(claim.UID, object.UID), nil
	case owner.UID != object.UID:
		return false, nil
	default:
		isBlocked := owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion && onlyAwaitsDependents(object)
		return !isBlocked, nil
	}
}

// namedTTL is how long namedObjects remembers the object of a deleted claim after the last check. It is longer than
// the time between two checks.
const namedTTL = 2 * time.Minute

// namedObjects remembers the awaited object of each deleted claim. Creation times have whole seconds, so they do not
// distinguish an object from a successor of the same name. Create it with newNamedObjects.
type namedObjects struct {
	byClaim *utilcache.Expiring
}

func newNamedObjects() *namedObjects {
	return &namedObjects{utilcache.NewExpiring()}
}

// isSame reports whether object is the first object known to hold up the release of the claim.
func (n *namedObjects) isSame(claim, object types.UID) bool {
	if before, ok := n.byClaim.Get(claim); ok && before != object {
		n.byClaim.Set(claim, before, namedTTL)
		return false
	}
	n.byClaim.Set(claim, object, namedTTL)
	return true
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

// onlyAwaitsDependents reports whether only the garbage collector holds a deleted object, until it has deleted the
// object's dependents.
func onlyAwaitsDependents(object *metav1.PartialObjectMetadata) bool {
	return object.DeletionTimestamp != nil && len(object.Finalizers) == 1 && object.Finalizers[0] == metav1.FinalizerDeleteDependents
}
