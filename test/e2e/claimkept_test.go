package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// keptObject makes an object with a finalizer, and a granted claim for it, made directly.
func (w *world) keptObject(name string, block *bool) (*corev1.ConfigMap, *quotav1alpha1.ResourceClaim) {
	w.Helper()
	object, claim := w.configMap(name), w.claim(name, 1)
	object.Finalizers = []string{"example.com/keep"}
	w.mustCreate(object)
	w.Cleanup(func() { w.letGo(object) })
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: object.UID, Controller: new(true), BlockOwnerDeletion: block,
	}}
	must(w.T, admin.Create(w.ctx, claim))
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	return object, claim
}

// letGo takes the finalizer off an object of keptObject, if the object exists.
func (w *world) letGo(object *corev1.ConfigMap) {
	w.Helper()
	ctx := context.WithoutCancel(w.ctx) // the end of the test calls it as well
	must(w.T, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current := &corev1.ConfigMap{}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(object), current); err != nil {
			return client.IgnoreNotFound(err)
		}
		current.Finalizers = slices.DeleteFunc(current.Finalizers, func(finalizer string) bool { return finalizer == "example.com/keep" })
		return client.IgnoreNotFound(admin.Update(ctx, current))
	}))
}

// A claim made directly keeps its charge until its object is gone, no matter who deletes the claim. The garbage
// collector deletes it first after a deletion of the object in the foreground.
func TestDirectClaimIsKeptByItsObject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason string
		block  *bool
	}{
		"unset":    {"the object does not wait for its claim", nil},
		"blocking": {"the object waits for its claim", new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.grant("base", 1)
			object, claim := w.keptObject("first", tt.block)
			must(t, admin.Delete(w.ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)))
			// The collector may come too late for the claim, so the test does its work.
			must(t, admin.Delete(w.ctx, claim))
			w.waitDeleting(claim)
			second := w.claim("second", 1)
			w.mustCreate(second)
			w.waitReason(second, quotav1alpha1.ReasonQuotaExceeded)
			w.wantBucket(1, 1, 0, 1)

			w.letGo(object)
			w.waitRemoved(object)
			w.waitGone(claim)
			w.waitCondition(second, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
			w.wantBucket(1, 1, 0, 1)
		})
	}
}

// Deleting a claim by hand warns that the claim stays. An update of the claim can give back its charge.
func TestDirectClaimIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	object, claim := w.keptObject("first", nil)
	api, warned := adminWithWarnings(t, nil)
	named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	named.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("ResourceClaim"))
	must(t, api.Delete(w.ctx, named))
	want := "claim first stays, with its charge, until ConfigMap first is gone; to give the charge back now, annotate the claim with quota.miloapis.com/release=true"
	if got := warned.String(); got != want {
		t.Errorf("who deletes the claim is told %q, want %q", got, want)
	}
	w.waitDeleting(claim)
	w.wantBucket(1, 1, 0, 1)
	claim.Annotations = map[string]string{quotav1alpha1.AnnotationRelease: "yes"}
	if err := admin.Update(w.ctx, claim); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `supported values: "true"`) {
		t.Errorf("got %v, want the value to be rejected", err)
	}
	claim.Annotations[quotav1alpha1.AnnotationRelease] = "true"
	must(t, admin.Update(w.ctx, claim))
	w.waitGone(claim)
	w.wantBucket(1, 0, 1, 0)
	must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(object), object))
}

// Nobody gives a policy's claim another owner, whose deletion would delete the claim. The garbage collector may take
// the owner off.
func TestOwnerOfPolicyClaim(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	object := w.configMap("a")
	w.mustCreate(object)
	claim := w.claimOf("a")
	edited := claim.DeepCopy()
	edited.OwnerReferences[0].UID = "00000000-0000-0000-0000-000000000000"
	err := admin.Update(w.ctx, edited)
	if want := "the owner of a policy's claim is the object that the claim pays for, and cannot be changed"; !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to be rejected: %s", err, want)
	}
	annotated := claim.DeepCopy()
	annotated.Annotations[quotav1alpha1.AnnotationRelease] = "true"
	if err := admin.Update(w.ctx, annotated); !apierrors.IsInvalid(err) {
		t.Errorf("a policy's claim is given up: %v", err)
	}
	must(t, admin.Delete(w.ctx, object, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.waitRemoved(object)
	w.waitGone(claim)
	w.wantBucket(1, 0, 1, 0)
}
