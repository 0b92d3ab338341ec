package e2e

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/platform"
)

// kindWorld is a world with a cluster-scoped kind of its own. Each object of the kind costs one.
type kindWorld struct {
	*world
	kind       schema.GroupVersionKind
	definition *apiextensionsv1.CustomResourceDefinition
	policy     *quotav1alpha1.ClaimCreationPolicy
}

func newKindWorld(t *testing.T, group string, limit int64) *kindWorld {
	t.Helper()
	k := &kindWorld{kind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gadget"}}
	k.world = newWorldFor(t, quotav1alpha1.ClaimingResource{APIGroup: group, Kind: k.kind.Kind})
	k.definition = platform.Definition(group, k.kind.Kind, "gadgets")
	k.mustCreate(k.definition.DeepCopy())
	k.grant("base", limit)
	k.policy = k.world.policy(k.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: k.kind.GroupVersion().String(), Kind: k.kind.Kind}
		p.Spec.Trigger.Conditions = nil
	})
	return k
}

func (k *kindWorld) gadget(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(k.kind)
	object.SetName(name)
	return object
}

// createOnceFree creates an object at the limit after the deletion of another one. Until Bursar sees the deletion, it
// may still deny the create.
func (k *kindWorld) createOnceFree(object *unstructured.Unstructured) {
	k.Helper()
	eventually(k, func() error { return admin.Create(k.ctx, object) })
}

// The claims of cluster-scoped objects are in Bursar's own namespace. Their objects own them, and they follow the
// objects like any others.
func TestClaimsOfClusterScopedObjects(t *testing.T) {
	t.Parallel()
	k := newKindWorld(t, "cluster-scoped.example.com", 1)
	for name, propagation := range map[string]metav1.DeletionPropagation{
		"background": metav1.DeletePropagationBackground,
		"foreground": metav1.DeletePropagationForeground,
		"orphan":     metav1.DeletePropagationOrphan,
	} {
		object := k.gadget("a")
		k.createOnceFree(object)
		k.waitClaims(object.GetUID())
		claim := k.claims()[0]
		if claim.Namespace != config.DefaultSystemNamespace {
			t.Errorf("%s: the claim is in namespace %s, want %s", name, claim.Namespace, config.DefaultSystemNamespace)
		}
		want := metav1.OwnerReference{APIVersion: k.kind.GroupVersion().String(), Kind: k.kind.Kind, Name: "a", UID: object.GetUID(),
			Controller: new(false), BlockOwnerDeletion: new(false)}
		if diff := cmp.Diff([]metav1.OwnerReference{want}, claim.OwnerReferences); diff != "" {
			t.Errorf("%s: the owner of the claim (-want +got):\n%s", name, diff)
		}
		k.wantExceeded(k.gadget("b"))
		must(t, k.deleteNow(object, propagation))
	}
	for range 10 {
		k.createOnceFree(k.gadget("a"))
		must(t, admin.Delete(k.ctx, k.gadget("a")))
	}
	k.waitClaims()
	k.wantBucket(1, 0, 1, 0)
}

// Deleting a kind's definition deletes its objects, and these their claims. When the definition comes back, the policy
// counts again by itself, and so do new objects.
func TestKindIsDeletedAndComesBack(t *testing.T) {
	t.Parallel()
	const limit = 3
	k := newKindWorld(t, "comes-back.example.com", limit)
	for round := range 2 {
		k.waitCondition(k.policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
		for i := range limit {
			must(t, admin.Create(k.ctx, k.gadget(fmt.Sprint("gadget-", i))))
		}
		k.wantExceeded(k.gadget("one-more"))
		k.wantBucket(limit, limit, 0, limit)
		if round > 0 {
			return
		}
		k.mustDelete(k.definition.DeepCopy())
		k.waitGone(k.definition.DeepCopy())
		k.waitClaims()
		k.wantBucket(limit, 0, limit, 0)
		condition := k.waitCondition(k.policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
		if condition.Reason != quotav1alpha1.ReasonValidationFailed {
			t.Errorf("the policy is not ready for %s, want %s: %s", condition.Reason, quotav1alpha1.ReasonValidationFailed, condition.Message)
		}
		must(t, admin.Create(k.ctx, k.definition.DeepCopy()))
	}
}

// Deleting a kind's definition leaves no claims. An object with a finalizer keeps its claim until it goes itself.
func TestKindIsDeletedWithAnObjectThatStays(t *testing.T) {
	t.Parallel()
	k := newKindWorld(t, "stays.example.com", 2)
	kept := k.gadget("kept")
	kept.SetFinalizers([]string{"example.com/keep"})
	must(t, admin.Create(k.ctx, kept))
	must(t, admin.Create(k.ctx, k.gadget("other")))
	k.wantBucket(2, 2, 0, 2)
	k.mustDelete(k.definition.DeepCopy())
	k.wantBucket(2, 1, 1, 1)
	k.waitClaims(kept.GetUID())
	eventually(k, func() error {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		return client.IgnoreNotFound(admin.Patch(k.ctx, k.gadget("kept"), patch))
	})
	k.waitGone(k.definition.DeepCopy())
	k.waitClaims()
	k.wantBucket(2, 0, 2, 0)
}
