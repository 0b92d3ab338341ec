package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// effective returns the effective grant of the world.
func (w *world) effective() (*quotav1alpha1.EffectiveResourceGrant, error) {
	var list quotav1alpha1.EffectiveResourceGrantList
	if err := admin.List(w.ctx, &list, client.MatchingFields{"spec.resourceType": w.resourceType()}); err != nil {
		return nil, err
	}
	if len(list.Items) != 1 || list.Items[0].Spec.ConsumerRef != w.consumer() {
		return nil, fmt.Errorf("there are %d effective grants, want one, of %s", len(list.Items), w.consumer().Name)
	}
	return &list.Items[0], nil
}

// wantEffective waits until the effective grant shows a status, but for names and generations.
func (w *world) wantEffective(want quotav1alpha1.EffectiveResourceGrantStatus) *quotav1alpha1.EffectiveResourceGrant {
	w.Helper()
	var effective *quotav1alpha1.EffectiveResourceGrant
	eventually(w, func() (err error) {
		if effective, err = w.effective(); err != nil {
			return err
		}
		diff := cmp.Diff(want, effective.Status, cmpopts.IgnoreFields(quotav1alpha1.AllowanceBucketRef{}, "Name", "ObservedGeneration"),
			cmpopts.IgnoreFields(quotav1alpha1.EffectiveResourceGrantStatus{}, "ObservedGeneration"))
		if diff != "" {
			return fmt.Errorf("the effective grant shows (-want +got):\n%s", diff)
		}
		return nil
	})
	if effective.Status.ObservedGeneration != effective.Generation {
		w.Errorf("the status is about generation %d, want %d", effective.Status.ObservedGeneration, effective.Generation)
	}
	return effective
}

// buckets returns the UIDs and the owners of the buckets of the world by name.
func (w *world) buckets() (uids map[string]types.UID, owners map[string][]metav1.OwnerReference, err error) {
	var list quotav1alpha1.AllowanceBucketList
	if err := admin.List(w.ctx, &list, client.MatchingFields{"spec.resourceType": w.resourceType()}); err != nil {
		return nil, nil, err
	}
	uids, owners = map[string]types.UID{}, map[string][]metav1.OwnerReference{}
	for _, bucket := range list.Items {
		uids[bucket.Name], owners[bucket.Name] = bucket.UID, bucket.OwnerReferences
	}
	return uids, owners, nil
}

// wantOwned waits until the effective grant owns its buckets, as many as given, and refers to them.
func (w *world) wantOwned(count int) {
	w.Helper()
	eventually(w, func() error {
		effective, err := w.effective()
		if err != nil {
			return err
		}
		_, owners, err := w.buckets()
		if err != nil {
			return err
		}
		var names []string
		for _, ref := range effective.Status.AllowanceBucketRefs {
			names = append(names, ref.Name)
		}
		slices.Sort(names)
		if existing := slices.Sorted(maps.Keys(owners)); len(existing) != count || !slices.Equal(names, existing) {
			return fmt.Errorf("there are buckets %v, and references to %v; want %d of each", existing, names, count)
		}
		want := []metav1.OwnerReference{{
			APIVersion: "quota.miloapis.com/v1alpha1", Kind: "EffectiveResourceGrant", Name: effective.Name, UID: effective.UID, Controller: new(true),
		}}
		for name, owner := range owners {
			if diff := cmp.Diff(want, owner); diff != "" {
				return fmt.Errorf("owners of bucket %s (-want +got):\n%s", name, diff)
			}
		}
		return nil
	})
}

func TestEffectiveGrant(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("base", w.located(2))
	whole := quotav1alpha1.AllowanceBucketRef{}
	refs := []quotav1alpha1.EffectiveGrantRef{{Name: "base", Namespace: w.name, Amount: 2, ObservedGeneration: 1}}
	shown := w.wantEffective(quotav1alpha1.EffectiveResourceGrantStatus{
		TotalLimit: 2, Available: 2, GrantRefs: refs, AllowanceBucketRefs: []quotav1alpha1.AllowanceBucketRef{whole},
		Display: &quotav1alpha1.DisplayedQuota{TotalLimit: "2 maps", TotalAllocated: "0 maps", Available: "2 maps", Percent: "0%"},
	})
	wantLabels := map[string]string{
		quotav1alpha1.LabelConsumerKind: w.consumer().Kind, quotav1alpha1.LabelConsumerName: w.consumer().Name,
		quotav1alpha1.LabelResourceType: strings.ReplaceAll(w.resourceType(), "/", "."),
	}
	if diff := cmp.Diff(wantLabels, shown.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	w.mustCreate(w.claimAt("a", "DFW", 1)) // the references add up
	dfw := quotav1alpha1.AllowanceBucketRef{Allocated: 1, Dimensions: map[string]string{location: "DFW"}}
	w.wantEffective(quotav1alpha1.EffectiveResourceGrantStatus{
		TotalLimit: 2, TotalAllocated: 1, Available: 1, GrantRefs: refs, AllowanceBucketRefs: []quotav1alpha1.AllowanceBucketRef{whole, dfw},
		Display: &quotav1alpha1.DisplayedQuota{TotalLimit: "2 maps", TotalAllocated: "1 map", Available: "1 map", Percent: "50%"},
	})
	w.wantOwned(2)
}

// TestDeletedEffectiveGrantComesBack deletes the effective grant and its buckets, with each propagation policy.
func TestDeletedEffectiveGrantComesBack(t *testing.T) {
	t.Parallel()
	for _, propagation := range []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		t.Run(string(propagation), func(t *testing.T) {
			t.Parallel()
			w := newLocatedWorld(t)
			w.give("base", w.located(5))
			w.mustCreate(w.claimAt("a", "DFW", 1))
			unused := w.claimAt("b", "LHR", 1)
			w.mustCreate(unused)
			w.wantBucketAt("LHR", 5, 1, 3, 1)
			w.mustDelete(unused)
			w.wantBucketAt("LHR", 5, 0, 4, 0)
			w.wantOwned(3)
			before, err := w.effective()
			if err != nil {
				t.Fatal(err)
			}
			if err := admin.Delete(w.ctx, before.DeepCopy(), client.PropagationPolicy(propagation)); err != nil {
				t.Fatal(err)
			}
			// The garbage collector has a part in some deletions, and may be slow.
			await.NoError(w, removal, func() error {
				after, err := w.effective()
				if err == nil && after.UID == before.UID {
					err = errors.New("the effective grant is still the one that was deleted")
				}
				return err
			})
			w.wantOwned(3)
			w.wantBucketAt("", 5, 1, 4, 1)
			w.wantBucketAt("DFW", 5, 1, 4, 1)
			w.wantBucketAt("LHR", 5, 0, 4, 0)
		})
	}
}

func TestDeletedBucketsComeBack(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("base", w.located(5))
	w.mustCreate(w.claimAt("a", "DFW", 1))
	w.wantBucketAt("DFW", 5, 1, 4, 1)
	w.wantOwned(2)
	before, _, err := w.buckets()
	if err != nil {
		t.Fatal(err)
	}
	for name := range before {
		bucket, err := w.bucketAt("DFW")
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(w.ctx, &quotav1alpha1.AllowanceBucket{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: bucket.Namespace}}); err != nil {
			t.Fatal(err)
		}
		eventually(w, func() error {
			after, _, err := w.buckets()
			if err == nil && (after[name] == before[name] || after[name] == "") {
				err = fmt.Errorf("bucket %s is not back", name)
			}
			return err
		})
	}
	w.wantOwned(2)
	w.wantBucketAt("", 5, 1, 4, 1)
	w.wantBucketAt("DFW", 5, 1, 4, 1)
}

// TestBucketsWithoutOwnerGetOne takes the owner from buckets, as left by a version without effective grants.
func TestBucketsWithoutOwnerGetOne(t *testing.T) {
	t.Parallel()
	w := newLocatedWorld(t)
	w.give("base", w.located(5))
	w.mustCreate(w.claimAt("a", "DFW", 1))
	w.wantBucketAt("DFW", 5, 1, 4, 1)
	for _, at := range []string{"", "DFW"} {
		bucket, err := w.bucketAt(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Patch(w.ctx, bucket, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
			t.Fatal(err)
		}
	}
	w.mustCreate(w.claimAt("b", "DFW", 1))
	w.wantBucketAt("DFW", 5, 2, 3, 2)
	w.wantOwned(2)
}

// TestDisplayFollowsTheRegistration removes the registration of a type with visible quota, and brings it back in
// another unit.
func TestDisplayFollowsTheRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 3)
	display := func() *quotav1alpha1.DisplayedQuota {
		effective, err := w.effective()
		if err != nil {
			t.Fatal(err)
		}
		return effective.Status.Display
	}
	want := func(limit string) {
		t.Helper()
		eventually(w, func() error {
			d := display()
			if d == nil && limit != "" || d != nil && d.TotalLimit != limit {
				return fmt.Errorf("displayed is %+v, want the limit as %q", d, limit)
			}
			return nil
		})
	}
	eventually(w, func() error { _, err := w.effective(); return err })
	want("3 maps")
	w.mustDelete(grant)
	want("0 maps")
	registration := w.registration(w.resourceType())
	w.mustDelete(registration)
	want("")
	registration.Spec.DisplayUnit, registration.Spec.UnitConversionFactor = "kMap", 1000
	w.mustCreate(registration)
	want("0 kMap")
	w.grant("again", 1500)
	want("1.5 kMap")
	w.update(registration, func() { registration.Spec.DisplayUnit, registration.Spec.UnitConversionFactor = "sheet", 10 })
	want("150 sheets")
}

func TestEffectiveGrantsAreBursars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forged := &quotav1alpha1.EffectiveResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "forged", Namespace: w.name},
		Spec:       quotav1alpha1.EffectiveResourceGrantSpec{ConsumerRef: w.consumer(), ResourceType: w.resourceType()},
	}
	if err := admin.Create(w.ctx, forged); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "effective grants are made by Bursar") {
		t.Errorf("got %v, want it to be forbidden", err)
	}
}
