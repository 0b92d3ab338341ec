package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// TestStatusIsBursars has an administrator with all of RBAC's permissions write statuses. Only Bursar may write them,
// and it still does.
func TestStatusIsBursars(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	waiting := w.claim("waiting", 2)
	w.mustCreate(waiting)
	w.waitReason(waiting, quotav1alpha1.ReasonQuotaExceeded)
	w.wantBucket(1, 0, 1, 0)
	bucket, err := w.bucket()
	if err != nil {
		t.Fatal(err)
	}
	effective, err := w.effective()
	if err != nil {
		t.Fatal(err)
	}
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: w.name}}
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	forged := map[string]struct {
		object client.Object
		patch  string
	}{
		"ResourceClaim": {waiting, `{"status":{"conditions":[{"type":"Granted","status":"True","reason":"QuotaAvailable","message":"forged",` +
			`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
		"AllowanceBucket":        {bucket, `{"status":{"limit":100,"available":100}}`},
		"EffectiveResourceGrant": {effective, `{"status":{"totalLimit":100,"available":100}}`},
		"ResourceRegistration":   {registration, `{"status":{"conditions":[]}}`},
		"ResourceGrant":          {grant, `{"status":{"conditions":[]}}`},
		"ClaimCreationPolicy":    {policy, `{"status":{"conditions":[]}}`},
	}
	for kind, c := range forged {
		t.Run(kind, func(t *testing.T) {
			name := c.object.GetName()
			err := admin.Status().Patch(w.ctx, c.object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(c.patch)))
			if want := "the status of " + kind + " " + name + " is written only by Bursar"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to be forbidden: %s", err, want)
			}
		})
	}

	// An update of the object itself with a status succeeds without the status.
	updated := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "waiting", Namespace: w.name}}
	if err := admin.Get(w.ctx, client.ObjectKeyFromObject(updated), updated); err != nil {
		t.Fatal(err)
	}
	updated.Labels = map[string]string{"team": "a"}
	apimeta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{
		Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue, Reason: quotav1alpha1.ReasonQuotaAvailable,
	})
	if err := admin.Update(w.ctx, updated); err != nil {
		t.Fatalf("label a claim: %v", err)
	}
	if apimeta.IsStatusConditionTrue(updated.Status.Conditions, quotav1alpha1.ConditionGranted) || updated.Labels["team"] != "a" {
		t.Errorf("the claim is %+v, want it labelled and not granted", updated)
	}
	w.wantBucket(1, 0, 1, 0)

	// Bursar itself still writes every status.
	w.grant("more", 1)
	w.waitCondition(waiting, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucket(2, 2, 0, 1)
}

// TestGrantedClaimsAreBursars: one version of claims keeps the status of a create. In it nobody except Bursar writes a
// claim. A policy's claim is granted from its first version on, and readable like any other.
func TestGrantedClaimsAreBursars(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	inVersion := func(name string) *unstructured.Unstructured {
		claim := &unstructured.Unstructured{}
		claim.SetAPIVersion(quotav1alpha1.GroupName + "/" + quotav1alpha1.GrantedVersion)
		claim.SetKind("ResourceClaim")
		claim.SetNamespace(w.name)
		claim.SetName(name)
		return claim
	}
	wantForbidden := func(what string, err error) {
		t.Helper()
		if want := "only Bursar writes claims in version v1alpha1granted: use v1alpha1"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to be forbidden: %s", what, err, want)
		}
	}
	forged := inVersion("forged")
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.claim("forged", 1))
	if err != nil {
		t.Fatal(err)
	}
	forged.Object["spec"] = content["spec"]
	wantForbidden("create", admin.Create(w.ctx, forged.DeepCopy()))

	events, err := admin.Watch(w.ctx, &quotav1alpha1.ResourceClaimList{}, client.InNamespace(w.name))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	w.mustCreate(w.configMap("a"))
	event := await.Receive(t, soon, events.ResultChan())
	claim, ok := event.Object.(*quotav1alpha1.ResourceClaim)
	if !ok || event.Type != watch.Added || !apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) ||
		claim.Status.ObservedGeneration != claim.Generation {
		t.Fatalf("the first event is %s of %+v, want a granted claim", event.Type, event.Object)
	}
	made := inVersion(claim.Name)
	if err := admin.Get(w.ctx, client.ObjectKeyFromObject(made), made); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(made.Object, "status")
	wantForbidden("update", admin.Update(w.ctx, made))
}
