package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const location = "networking.example.com/location"

// newLocatedWorld makes a world with locations as a dimension of its resource type.
func newLocatedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.changeDimensions(location)
	return w
}

// changeDimensions makes these the dimensions of the world's resource type.
func (w *world) changeDimensions(keys ...string) {
	w.Helper()
	eventually(w, func() error {
		registration := &quotav1alpha1.ResourceRegistration{}
		if err := admin.Get(w.ctx, client.ObjectKey{Name: registrationName(w.resourceType())}, registration); err != nil {
			return err
		}
		registration.Spec.Dimensions = keys
		return admin.Update(w.ctx, registration)
	})
}

// located is an allowance for those locations, or for any location.
func (w *world) located(amount int64, locations ...string) quotav1alpha1.Allowance {
	requirement := metav1.LabelSelectorRequirement{Key: location, Operator: metav1.LabelSelectorOpExists}
	if len(locations) > 0 {
		requirement.Operator, requirement.Values = metav1.LabelSelectorOpIn, locations
	}
	return quotav1alpha1.Allowance{
		ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: amount}},
		DimensionSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}},
	}
}

// newGrant is a grant to the world's consumer.
func (w *world) newGrant(name string, allowances ...quotav1alpha1.Allowance) *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name},
		Spec:       quotav1alpha1.ResourceGrantSpec{ConsumerRef: w.consumer(), Allowances: allowances},
	}
}

// give creates a grant and waits until it counts.
func (w *world) give(name string, allowances ...quotav1alpha1.Allowance) *quotav1alpha1.ResourceGrant {
	w.Helper()
	grant := w.newGrant(name, allowances...)
	w.mustCreate(grant)
	w.waitCondition(grant, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	return grant
}

// locate protects the world's ConfigMaps. Each costs one at the location in its label.
func (w *world) locate() *quotav1alpha1.ClaimCreationPolicy {
	w.Helper()
	return w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Dimensions = map[string]string{location: "{{.trigger.metadata.labels.location}}"}
	})
}

// configMapAt is a ConfigMap with a location.
func (w *world) configMapAt(location, name string) *corev1.ConfigMap {
	object := w.configMap(strings.ToLower(location) + "-" + name)
	object.Labels = map[string]string{"location": location}
	return object
}

// claimAt is a service's claim for a location.
func (w *world) claimAt(name, at string, amount int64) *quotav1alpha1.ResourceClaim {
	claim := w.claim(name, amount)
	claim.Spec.Requests[0].Dimensions = map[string]string{location: at}
	return claim
}

// bucketAt returns the bucket of the world for a location, or the bucket of the whole.
func (w *world) bucketAt(at string) (*quotav1alpha1.AllowanceBucket, error) {
	var list quotav1alpha1.AllowanceBucketList
	if err := admin.List(w.ctx, &list, client.MatchingFields{"spec.resourceType": w.resourceType()}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Spec.ConsumerRef == w.consumer() && list.Items[i].Spec.Dimensions[location] == at {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("there is no bucket for location %q", at)
}

// wantBucketAt waits until the bucket of a location shows these numbers.
func (w *world) wantBucketAt(at string, limit, allocated, available int64, claims int32) *quotav1alpha1.AllowanceBucket {
	w.Helper()
	var bucket *quotav1alpha1.AllowanceBucket
	eventually(w, func() (err error) {
		if bucket, err = w.bucketAt(at); err != nil {
			return err
		}
		s := bucket.Status
		if s.Limit != limit || s.Allocated != allocated || s.Available != available || s.ClaimCount != claims {
			return fmt.Errorf("the bucket of location %q has limit %d, allocated %d, available %d, claims %d; want %d, %d, %d, %d",
				at, s.Limit, s.Allocated, s.Available, s.ClaimCount, limit, allocated, available, claims)
		}
		return nil
	})
	return bucket
}

func TestDimensionsThroughAPolicy(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("base", w.located(2))
	w.give("dls", w.located(1, "DLS"))
	w.locate()

	first := w.configMapAt("DFW", "a")
	w.mustCreate(first)
	w.mustCreate(w.configMapAt("DFW", "b"))
	message := w.wantExceeded(w.configMapAt("DFW", "c"))
	if want := "requested: 1 map, used: 2, limited: 3 (for " + location + "=DFW, available: 0)"; !strings.Contains(message, want) {
		t.Errorf("the message is\n%s\nwant it to say\n%s", message, want)
	}
	w.mustCreate(w.configMapAt("DLS", "a"))
	w.wantExceeded(w.configMapAt("DLS", "b"))

	w.wantBucketAt("", 3, 3, 0, 3)
	dfw := w.wantBucketAt("DFW", 2, 2, 0, 2)
	if diff := cmp.Diff([]quotav1alpha1.ContributingGrantRef{{Name: "base", Amount: 2, LastObservedGeneration: 1}}, dfw.Status.ContributingGrantRefs); diff != "" {
		t.Errorf("only allowances that match contribute (-want +got):\n%s", diff)
	}
	if dls := w.wantBucketAt("DLS", 3, 1, 0, 1); dls.Status.GrantCount != 2 {
		t.Errorf("%d grants contribute to DLS, want both", dls.Status.GrantCount)
	}
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-dfw-a", Namespace: w.name}}
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	if got := claim.Status.Allocations[0].AllocatingBucket; got != dfw.Name {
		t.Errorf("the claim is allocated from bucket %s, want %s", got, dfw.Name)
	}

	// Returned quota is free for others, and buckets stay.
	w.mustDelete(first)
	eventually(w, func() error { return admin.Create(w.ctx, w.configMapAt("DLS", "b")) })
	w.cleanUp(w.configMapAt("DLS", "b"))
	w.wantBucketAt("DFW", 2, 1, 0, 1)
	w.mustDelete(w.configMapAt("DFW", "b"))
	w.wantBucketAt("DFW", 2, 0, 1, 0)
	w.wantBucketAt("DLS", 3, 2, 1, 2)
}

// TestAllowancesAreSharedExactly charges one location covered by two allowances, and then a location covered by only
// one of them. This works with each of the two, regardless of the source of the first charge.
func TestAllowancesAreSharedExactly(t *testing.T) {
	t.Parallel()
	for _, second := range []string{"DFW", "DLS"} {
		t.Run(second, func(t *testing.T) {
			t.Parallel()
			w := newLocatedWorld(t)
			w.give("west", w.located(1, "DFW", "LHR"))
			w.give("east", w.located(1, "LHR", "DLS"))
			w.locate()
			w.mustCreate(w.configMapAt("LHR", "a"))
			w.wantBucketAt("LHR", 2, 1, 1, 1)
			w.mustCreate(w.configMapAt(second, "b"))
			w.wantExceeded(w.configMapAt("LHR", "c"))
			w.wantExceeded(w.configMapAt(second, "c"))
			w.wantBucketAt("LHR", 2, 1, 0, 1)
			w.wantBucketAt(second, 1, 1, 0, 1)
		})
	}
}

// TestLocatedLimitsShrink reduces an allowance in use.
func TestLocatedLimitsShrink(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("base", w.located(2))
	dls := w.give("dls", w.located(3, "DLS"))
	lhr := w.give("lhr", w.located(1, "LHR"))
	inUse := w.claimAt("in-use", "DLS", 4)
	w.mustCreate(inUse)
	w.waitCondition(inUse, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucketAt("DLS", 5, 4, 1, 1)

	dls.Spec.Allowances[0].Buckets[0].Amount = 1
	if err := admin.Update(w.ctx, dls); err != nil {
		t.Fatal(err)
	}
	w.wantBucketAt("DLS", 3, 4, 0, 1)
	w.wantBucketAt("", 4, 4, 0, 1)
	w.waitCondition(inUse, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)

	// Nothing of the base is left for anybody. The allowance of LHR, useless to DLS, is still there.
	other, waiting := w.claimAt("other", "LHR", 1), w.claimAt("waiting", "DFW", 1)
	w.mustCreate(other)
	w.waitCondition(other, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.mustCreate(waiting)
	w.waitReason(waiting, quotav1alpha1.ReasonQuotaExceeded)
	w.wantBucketAt("LHR", 3, 1, 0, 1)
	w.mustDelete(lhr)
	w.wantBucketAt("LHR", 2, 1, 0, 1)
	w.mustDelete(inUse)
	w.waitCondition(waiting, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucketAt("DLS", 3, 0, 1, 0)
}

// TestDimensionsAreRegistered uses a dimension before its registration has it, and after.
func TestDimensionsAreRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	early := w.newGrant("early", w.located(3))
	w.mustCreate(early)
	claim := w.claimAt("early", "DFW", 1)
	w.mustCreate(claim)
	policy := w.newPolicy(w.name)
	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Dimensions = map[string]string{location: "{{.trigger.metadata.labels.location}}"}
	w.mustCreate(policy)

	advice := fmt.Sprintf("resource type %q has no dimension %q: add it to spec.dimensions of ResourceRegistration %s",
		w.resourceType(), location, registrationName(w.resourceType()))
	wantInvalid := func(condition metav1.Condition) {
		t.Helper()
		if condition.Reason != quotav1alpha1.ReasonValidationFailed || !strings.Contains(condition.Message, advice) {
			t.Errorf("the condition is %+v, want it to say %q", condition, advice)
		}
	}
	wantInvalid(w.waitCondition(early, quotav1alpha1.ConditionActive, metav1.ConditionFalse))
	wantInvalid(w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse))
	w.waitReason(claim, quotav1alpha1.ReasonValidationFailed)
	wantInvalid(*apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted))

	unseen := w.configMapAt("DFW", "unseen")
	w.mustCreate(unseen) // a policy that is not ready denies nothing
	w.mustDelete(unseen)

	w.changeDimensions(location)
	w.waitCondition(early, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.wantBucketAt("DFW", 8, 1, 7, 1)
	w.mustCreate(w.configMapAt("DFW", "a"))
	w.wantBucketAt("DFW", 8, 2, 6, 2)

	// Claims stay granted after their dimension's removal.
	w.changeDimensions()
	wantInvalid(w.waitCondition(early, quotav1alpha1.ConditionActive, metav1.ConditionFalse))
	wantInvalid(w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse))
	w.wantBucketAt("DFW", 5, 2, 3, 2)
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	if err := admin.Create(w.ctx, w.configMapAt("DFW", "b")); err == nil || !strings.Contains(err.Error(), advice) {
		t.Errorf("got %v, want the create to be refused: %s", err, advice)
	}
}

// TestSelectorsOfBuckets finds the buckets of a consumer and of a type, as in the reference.
func TestSelectorsOfBuckets(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("base", w.located(2))
	w.mustCreate(w.claimAt("a", "DFW", 1))
	w.wantBucketAt("DFW", 2, 1, 1, 1)
	queries := map[string]client.ListOption{
		"labels": client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{
			quotav1alpha1.LabelConsumerKind: w.consumer().Kind, quotav1alpha1.LabelConsumerName: w.consumer().Name,
		})},
		"resource type": client.MatchingFields{"spec.resourceType": w.resourceType()},
		"consumer":      client.MatchingFields{"spec.consumerRef.kind": w.consumer().Kind, "spec.consumerRef.name": w.consumer().Name},
	}
	for name, query := range queries {
		var buckets quotav1alpha1.AllowanceBucketList
		var effective quotav1alpha1.EffectiveResourceGrantList
		for _, list := range []client.ObjectList{&buckets, &effective} {
			if err := admin.List(w.ctx, list, query); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if len(buckets.Items) != 2 || len(effective.Items) != 1 {
			t.Errorf("by %s there are %d buckets and %d effective grants, want 2, of DFW and of the whole, and 1", name, len(buckets.Items), len(effective.Items))
		}
	}
}

// TestOnlyWhatChangedIsWritten uses one location and checks the buckets of the others for writes.
func TestOnlyWhatChangedIsWritten(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("base", w.located(5, "DFW"), w.located(5, "LHR"), w.located(5, "DLS"))
	for _, at := range []string{"DFW", "LHR", "DLS"} {
		w.mustCreate(w.claimAt("one-in-"+strings.ToLower(at), at, 1))
		w.wantBucketAt(at, 5, 1, 4, 1)
	}
	w.wantBucketAt("", 15, 3, 12, 3)
	lhr, dls := w.wantBucketAt("LHR", 5, 1, 4, 1), w.wantBucketAt("DLS", 5, 1, 4, 1)
	w.mustCreate(w.claimAt("another", "DFW", 2))
	w.wantBucketAt("", 15, 5, 10, 4)
	w.wantBucketAt("DFW", 5, 3, 2, 2)
	w.mustDelete(w.claimAt("another", "DFW", 2))
	w.wantBucketAt("", 15, 3, 12, 3)
	for at, before := range map[string]*quotav1alpha1.AllowanceBucket{"LHR": lhr, "DLS": dls} {
		after := w.wantBucketAt(at, 5, 1, 4, 1)
		if after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the bucket of %s was written, although nothing changed there:\n%s", at, cmp.Diff(before, after))
		}
		if after.Status.ObservedGeneration != after.Generation || after.Status.LastReconciliation == nil {
			t.Errorf("the status of the bucket of %s is %+v, want it to say when and of which generation", at, after.Status)
		}
	}
}
