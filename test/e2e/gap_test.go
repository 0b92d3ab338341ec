package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// registered returns the registration of the world's resource type.
func (w *world) registered() *quotav1alpha1.ResourceRegistration {
	w.Helper()
	r := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	if err := admin.Get(w.ctx, client.ObjectKeyFromObject(r), r); err != nil {
		w.Fatal(err)
	}
	return r
}

// TestObjectsFromWhenAPolicyWasNotReady removes a registration and brings it back. Only Bursar may remove it while a
// policy needs it. Bursar charges the objects created meanwhile as soon as the policy is ready.
func TestObjectsFromWhenAPolicyWasNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	policy := w.policy(w.name, nil)
	w.wantAdopted(policy, 0, 0)
	r := w.registered()
	must(t, admin.Delete(w.ctx, r))
	w.liftFinalizers(r)
	w.waitGone(r)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
	a, b := w.configMap("a"), w.configMap("b")
	eventually(w, func() error { return admin.Create(w.ctx, a) })
	w.mustCreate(b)

	must(t, admin.Create(w.ctx, w.registration(w.resourceType())))
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.waitClaims(a.UID, b.UID)
	w.wantExceeded(w.configMap("c"))
	w.wantAdopted(policy, 2, 0)
}

// TestObjectsFromWhenTheirKindMightNotClaim does the same with a policy in warning mode.
func TestObjectsFromWhenTheirKindMightNotClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	policy := w.policy(w.name, inMode(quotav1alpha1.EnforcementModeWarn))
	w.wantAdopted(policy, 0, 0)
	setClaiming := func(kind string) {
		t.Helper()
		eventually(w, func() error {
			r := w.registered()
			r.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{Kind: kind}}
			return admin.Update(w.ctx, r)
		})
	}
	setClaiming("Secret")
	w.waitCondition(policy, quotav1alpha1.ConditionApplicable, metav1.ConditionFalse) // until then, a create is charged
	a := w.configMap("a")
	w.mustCreate(a)
	setClaiming("ConfigMap")
	w.waitClaims(a.UID)
	w.wantBucket(5, 1, 4, 1)
}

// liftFinalizers removes the finalizers of an object under deletion, as those that wait for it do.
func (w *world) liftFinalizers(object client.Object) {
	w.Helper()
	eventually(w, func() error {
		return client.IgnoreNotFound(bursar.Patch(w.ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
}
