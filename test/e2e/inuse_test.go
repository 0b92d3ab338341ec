package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// claimOf waits for the claim of the world's policy on an object.
func (w *world) claimOf(object string) *quotav1alpha1.ResourceClaim {
	w.Helper()
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + object, Namespace: w.name}}
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	return claim
}

// waitDeleting waits until a claim has a deletion timestamp.
func (w *world) waitDeleting(claim *quotav1alpha1.ResourceClaim) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.DeletionTimestamp == nil {
			return errors.New("the claim is not being deleted")
		}
		return nil
	})
}

// After a deletion in the foreground, the garbage collector may delete the object's claim. The object stays as long as
// a finalizer keeps it, and so does its charge. The collector may come too late for the claim, so the test does its
// work.
func TestForegroundDeletionKeepsTheCharge(t *testing.T) {
	t.Parallel()
	w := newClaimedWorld(t, 1)
	kept := w.configMap("a")
	kept.Finalizers = []string{"example.com/keep"}
	w.mustCreate(kept)
	claim := w.claimOf("a")
	if err := admin.Delete(w.ctx, kept, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	if err := bursar.Delete(w.ctx, claim); err != nil {
		t.Fatal(err)
	}
	w.waitDeleting(claim)
	w.wantExceeded(w.configMap("b"))
	w.wantBucket(1, 1, 0, 1)

	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(kept), kept); err != nil {
			return err
		}
		kept.Finalizers = nil
		return admin.Update(w.ctx, kept)
	})
	w.wantBucket(1, 0, 1, 0)
	w.mustCreate(w.configMap("b"))
}

// The deletion of a claim's namespace keeps the charge for an object in another namespace, until the object is gone.
func TestDeletedClaimNamespaceKeepsTheCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-claims"}}
	w.mustCreate(namespace)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		keepsClaims(p)
		p.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = namespace.Name
	})
	w.mustCreate(w.configMap("a"))
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-a", Namespace: namespace.Name}}
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.mustDelete(namespace)
	w.waitDeleting(claim)
	w.wantBucket(1, 1, 0, 1)

	w.mustDelete(w.configMap("a"))
	w.wantBucket(1, 0, 1, 0)
	w.waitRemoved(namespace)
}

// While the API server does not serve a kind, its objects still exist and keep their charge.
func TestKindNotServedForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const group = "withheld.example.com"
	definition := platform.Definition(group, "Widget", "widgets")
	w.mustCreate(definition)
	widgets := w.name + "/widgets"
	registration := w.registration(widgets)
	registration.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{APIGroup: group, Kind: "Widget"}}
	w.mustCreate(registration)
	w.grantTypes("widgets", map[string]int64{widgets: 1})
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: group + "/v1", Kind: "Widget"}
		p.Spec.Trigger.Conditions = nil
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = widgets
		p.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = w.name
	})
	widget := func(name string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"})
		object.SetName(name)
		return object
	}
	w.mustCreate(widget("a"))
	claim := w.claimOf("a")

	serve := func(served bool) {
		eventually(w, func() error {
			current := &apiextensionsv1.CustomResourceDefinition{}
			if err := admin.Get(w.ctx, client.ObjectKeyFromObject(definition), current); err != nil {
				return err
			}
			current.Spec.Versions[0].Served = served
			return admin.Update(w.ctx, current)
		})
	}
	serve(false)
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
	// Deleting the claim now does not make the widget free: nobody can know that the widget is gone. The webhook says
	// so. The garbage collector may have been first, because it takes the objects of an unserved kind for gone.
	eventually(w, func() error { return admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim) })
	if err := admin.Delete(w.ctx, claim); err == nil && claim.DeletionTimestamp == nil {
		t.Error("the claim was deleted although its object may be there")
	}
	serve(true)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	if claims := w.claims(); len(claims) != 1 || claims[0].UID != claim.UID {
		t.Errorf("the widget was out of reach for a moment, and its claim is not what it was: %+v", claims)
	}
	eventually(w, func() error { return admin.Get(w.ctx, client.ObjectKey{Name: "a"}, widget("a")) })
	w.wantExceeded(widget("b"))
}

// Two policies may give the claims of one object the same name. One claim gets another name.
func TestTwoPoliciesOneClaimName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	for _, suffix := range []string{"-1", "-2"} {
		w.policy(w.name+suffix, func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "{{.trigger.metadata.name}}"
		})
	}
	w.mustCreate(w.configMap("a"))
	w.wantBucket(10, 2, 8, 2)
	eventually(w, func() error { // views come after the quota is in use
		if claims := w.claims(); len(claims) != 2 {
			return fmt.Errorf("there are %d claims, want 2", len(claims))
		}
		return nil
	})
	w.mustDelete(w.configMap("a"))
	w.wantBucket(10, 0, 10, 0)
}

// A denial names the shortfalls of both policies, and adds up an object's requests for one quota.
func TestTwoPoliciesBothShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := w.name + "/others"
	w.mustCreate(w.registration(second))
	w.waitCondition(&quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(second)}},
		quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.grantTypes("base", map[string]int64{w.resourceType(): 1, second: 0})
	w.policy(w.name+"-1", nil)
	w.policy(w.name+"-2", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests = append(p.Spec.Target.ResourceClaimTemplate.Spec.Requests,
			quotav1alpha1.ResourceRequestTemplate{ResourceType: second, Amount: 1})
	})
	for name, options := range map[string][]client.CreateOption{"create": nil, "dry run": {client.DryRunAll}} {
		message := w.wantExceeded(w.configMap("a"), options...)
		want := "requested: 2 maps, used: 0, limited: 1 (available: 1); ConfigMap quota of Organization " + w.name + ", requested: 1 map, used: 0, limited: 0."
		if !strings.Contains(message, want) {
			t.Errorf("%s: got %q, want %q", name, message, want)
		}
	}
	w.wantBucket(1, 0, 1, 0)
}

// Bursar replaces a deleted bucket.
func TestDeletedBucketComesBack(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 3)
	w.mustCreate(w.configMap("a"))
	w.wantBucket(3, 1, 2, 1)
	bucket, err := w.bucket()
	if err != nil {
		t.Fatal(err)
	}
	w.mustDelete(bucket)
	w.wantBucket(3, 1, 2, 1)
}

// A waiting claim has a bucket, even before any grant.
func TestBucketOfAWaitingClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claim := w.claim("early", 1)
	w.mustCreate(claim)
	w.waitReason(claim, quotav1alpha1.ReasonQuotaExceeded)
	c := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	if c.LastTransitionTime.Before(&claim.CreationTimestamp) {
		t.Errorf("the claim is said to wait since %s, and was made at %s", c.LastTransitionTime, claim.CreationTimestamp)
	}
	w.wantBucket(0, 0, 0, 0)
}

// A claim without the finalizer gets it before its grant.
func TestClaimWithoutFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claim := w.claim("bare", 1)
	w.mustCreate(claim) // waits: there is no limit yet
	w.waitReason(claim, quotav1alpha1.ReasonQuotaExceeded)
	eventually(w, func() error {
		if err := bursar.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		claim.Finalizers = nil
		return bursar.Update(w.ctx, claim)
	})
	w.grant("base", 1)
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucket(1, 1, 0, 1)
	w.mustDelete(claim)
	w.wantBucket(1, 0, 1, 0)
}
