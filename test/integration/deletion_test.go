package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestSystemNamespaceStays(t *testing.T) {
	t.Parallel()
	w := &world{T: t, ctx: t.Context(), name: "system-namespace-stays"}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bursar-system"}}
	err := admin.Delete(w.ctx, system)
	if want := "namespace bursar-system holds Bursar's books and may not be deleted"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to be forbidden: %s", err, want)
	}
	if err := admin.Get(w.ctx, client.ObjectKeyFromObject(system), system); err != nil || system.DeletionTimestamp != nil {
		t.Errorf("the namespace is %+v (%v), want it not to be deleted", system, err)
	}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	w.mustCreate(other)
	w.mustDelete(other)
}

// TestRegistrationInUseStays tries to switch off enforcement by deleting what it counts by.
func TestRegistrationInUseStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 0)
	policy := w.policy(w.name, nil)
	registration := w.registration(w.resourceType())
	head := "ResourceRegistration " + registration.Name + " registers " + w.resourceType() + ", which "
	wantRefused := func(user string) {
		t.Helper()
		err := admin.Delete(w.ctx, registration)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), head) || !strings.Contains(err.Error(), user) {
			t.Fatalf("got %v, want it to be forbidden because of %s", err, user)
		}
		w.wantExceeded(w.configMap("a"))
	}
	wantRefused("ClaimCreationPolicy " + policy.Name + " requests")
	wantRefused("ResourceGrant " + w.name + "/base gives")
	second := w.registration(w.resourceType() + "/unused")
	w.mustCreate(second)
	w.waitCondition(second, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.mustDelete(second)

	// A disabled policy does not count, nor what has gone.
	disabled := false
	w.update(policy, func() { policy.Spec.Enabled = &disabled })
	err := admin.Delete(w.ctx, registration)
	if want := head + "ResourceGrant " + w.name + "/base gives"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want it to be forbidden: %s", err, want)
	}
	w.mustDelete(grant)
	w.mustDelete(registration)
}
