package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestSystemNamespaceStays(t *testing.T) {
	t.Parallel()
	w := &world{T: t, ctx: t.Context(), name: "system-namespace-stays"}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bursar-system"}}
	err := admin.Delete(w.ctx, system)
	if want := "namespace bursar-system holds Bursar's ledgers and may not be deleted"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to be forbidden: %s", err, want)
	}
	if err := admin.Get(w.ctx, client.ObjectKeyFromObject(system), system); err != nil || system.DeletionTimestamp != nil {
		t.Errorf("the namespace is %+v (%v), want it not to be deleted", system, err)
	}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	w.mustCreate(other)
	w.mustDelete(other)
}

// waitStatus waits until isIt accepts a condition of a registration.
func (w *world) waitStatus(registration *quotav1alpha1.ResourceRegistration, conditionType string, isIt func(metav1.Condition) bool) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(registration), registration); err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(registration.Status.Conditions, conditionType); c == nil || !isIt(*c) {
			return fmt.Errorf("condition %s of ResourceRegistration %s is %+v", conditionType, registration.Name, c)
		}
		return nil
	})
}

// TestRegistrationInUseStays deletes a registration while enforcement counts by it.
func TestRegistrationInUseStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 1)
	policy := w.policy(w.name, nil)
	w.mustCreate(w.configMap("before"))
	registration := w.registration(w.resourceType())
	head := "being deleted: ResourceRegistration " + registration.Name + " registers " + w.resourceType() + ", which "
	w.mustDelete(registration)
	wantInUse := func(want string) {
		t.Helper()
		w.waitStatus(registration, quotav1alpha1.ConditionInUse, func(c metav1.Condition) bool {
			return c.Status == metav1.ConditionTrue && c.Message == head+want
		})
	}
	wantInUse(fmt.Sprintf("ClaimCreationPolicy %s requests and ResourceGrant %s/base gives; "+
		"delete or disable that policy, and delete that grant or take %s out of it first", policy.Name, w.name, w.resourceType()))

	// It accepts nothing new, and the limit still holds.
	closing := fmt.Sprintf("resource type %q accepts nothing new: ResourceRegistration %s is being deleted", w.resourceType(), registration.Name)
	more := grant.DeepCopy()
	more.ObjectMeta = metav1.ObjectMeta{Name: "more", Namespace: w.name}
	second := w.newPolicy(w.name + "-second")
	for what, object := range map[string]client.Object{
		"an object under the policy": w.configMap("new"), "a grant": more, "a claim": w.claim("direct", 1), "a policy": second,
	} {
		eventually(w, func() error {
			if err := admin.Create(w.ctx, object, client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), closing) {
				return fmt.Errorf("create %s: got %v, want it to be forbidden: %s", what, err, closing)
			}
			return nil
		})
	}
	w.wantBucket(1, 1, 0, 1)

	// A disabled policy does not count.
	disabled := false
	w.update(policy, func() { policy.Spec.Enabled = &disabled })
	wantInUse(fmt.Sprintf("ResourceGrant %s/base gives; delete that grant or take %s out of it first", w.name, w.resourceType()))
	w.mustDelete(grant)
	w.waitGone(registration)
}

// TestRegistrationIsSucceeded replaces a registration deleted by mistake, without a gap in enforcement.
func TestRegistrationIsSucceeded(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustCreate(w.configMap("before"))
	registration := w.registration(w.resourceType())
	w.mustDelete(registration)
	other := w.registration(w.resourceType())
	other.Name, other.Spec.BaseUnit = registration.Name+"-other", "page"
	w.mustCreate(other)
	w.waitStatus(other, quotav1alpha1.ConditionActive, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "which is being deleted and has another baseUnit")
	})
	w.mustDelete(other)
	successor := w.registration(w.resourceType())
	successor.Name = registration.Name + "-successor"
	w.mustCreate(successor)
	w.waitCondition(successor, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.waitGone(registration)
	w.wantExceeded(w.configMap("after"))
}
