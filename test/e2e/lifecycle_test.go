package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// waitGone waits until an object no longer exists.
func (w *world) waitGone(object client.Object) {
	w.Helper()
	waitNotFound(w, admin, soon, object)
}

// waitRemoved is waitGone for an object that the garbage collector or the namespace controller removes.
func (w *world) waitRemoved(object client.Object) {
	w.Helper()
	waitNotFound(w, admin, removal, object)
}

// removal bounds waits for Kubernetes' garbage collector and namespace controller. They may take longer than Bursar.
const removal = 3 * soon

func waitNotFound(t testing.TB, api client.Reader, within time.Duration, object client.Object) {
	t.Helper()
	await.NoError(t, within, func() error {
		err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s is still there: %v", object, object.GetName(), err)
		}
		return nil
	})
}

// waitClaims waits until the world's consumer has one granted claim for each of the objects, by UID,
// and no other.
func (w *world) waitClaims(objects ...types.UID) {
	w.Helper()
	eventually(w, func() error {
		claims := w.claims()
		if len(claims) != len(objects) {
			return fmt.Errorf("there are %d claims for %d objects", len(claims), len(objects))
		}
		missing := map[string]bool{}
		for _, uid := range objects {
			missing[string(uid)] = true
		}
		for _, claim := range claims {
			if claim.DeletionTimestamp != nil || !isGranted(&claim) {
				return fmt.Errorf("claim %s is not granted, or is being deleted", claim.Name)
			}
			delete(missing, claim.Annotations[quotav1alpha1.AnnotationResourceUID])
		}
		if len(missing) > 0 {
			return fmt.Errorf("objects without a claim: %v", missing)
		}
		return nil
	})
}

func isGranted(claim *quotav1alpha1.ResourceClaim) bool {
	for _, condition := range claim.Status.Conditions {
		if condition.Type == quotav1alpha1.ConditionGranted {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return false
}

// claimsIn makes a namespace, and has the policy of a world put its claims into it.
func (w *world) claimsIn(namespace string) func(*quotav1alpha1.ClaimCreationPolicy) {
	w.Helper()
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	return func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = namespace
	}
}

// A claim goes with its object, and its quota is free again, for each way of deletion and each place of the claim.
func TestClaimGoesWithItsObject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason      string
		propagation metav1.DeletionPropagation
		elsewhere   bool
	}{
		"background":            {"the collector deletes the claim too", metav1.DeletePropagationBackground, false},
		"foreground":            {"the collector deletes the claim, maybe before the object", metav1.DeletePropagationForeground, false},
		"orphan":                {"the collector leaves the claim alone", metav1.DeletePropagationOrphan, false},
		"background, elsewhere": {"the claim has no owner", metav1.DeletePropagationBackground, true},
		"foreground, elsewhere": {"the claim has no owner", metav1.DeletePropagationForeground, true},
		"orphan, elsewhere":     {"the claim has no owner", metav1.DeletePropagationOrphan, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.grant("base", 1)
			var change func(*quotav1alpha1.ClaimCreationPolicy)
			if tt.elsewhere {
				change = w.claimsIn(w.name + "-claims")
			}
			w.policy(w.name, change)
			for range 2 {
				// Until Bursar sees the deletion, it may still deny a create.
				object := w.configMap("a")
				eventually(w, func() error { return admin.Create(w.ctx, object) })
				w.waitClaims(object.UID)
				w.wantExceeded(w.configMap("b"))
				must(t, admin.Delete(w.ctx, object, client.PropagationPolicy(tt.propagation)))
				w.waitRemoved(object)
				other := w.configMap("b")
				eventually(w, func() error {
					if err := admin.Create(w.ctx, other); err != nil {
						return fmt.Errorf("%s: the object is gone, and its quota is not back: %w", tt.reason, err)
					}
					return nil
				})
				w.waitClaims(other.UID)
				must(t, admin.Delete(w.ctx, other))
			}
			w.wantBucket(1, 0, 1, 0)
			w.waitClaims()
		})
	}
}

// waitCollected waits until the garbage collector knows claims. The collector looks for new kinds every few seconds,
// and orphans nothing of unknown kinds.
func (w *world) waitCollected() {
	w.Helper()
	unowned := w.claim("unowned", 1)
	unowned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "nobody"}}
	must(w.T, admin.Create(w.ctx, unowned))
	await.NoError(w, removal, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(unowned), unowned); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the garbage collector has not deleted a claim whose owner does not exist, %v", err)
		}
		return nil
	})
}

// After a deletion with orphaning, the garbage collector takes the owner off the object's claim. The claim still pays
// for the object as long as a finalizer keeps the object, and goes with it.
func TestOrphanedClaimGoesWithItsObject(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.waitCollected()
	kept := w.configMap("a")
	kept.Finalizers = []string{"example.com/keep"}
	must(t, admin.Create(w.ctx, kept))
	claim := w.claimOf("a")
	if len(claim.OwnerReferences) != 1 {
		t.Fatalf("the claim is owned by %+v, want its object", claim.OwnerReferences)
	}
	must(t, admin.Delete(w.ctx, kept, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	await.NoError(w, removal, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if len(claim.OwnerReferences) > 0 {
			return fmt.Errorf("the claim is still owned by %+v", claim.OwnerReferences)
		}
		return nil
	})
	if err := admin.Delete(w.ctx, claim); !apierrors.IsForbidden(err) {
		t.Errorf("the claim is deleted while its object exists: got %v, want it to be forbidden", err)
	}
	w.wantExceeded(w.configMap("b"))
	w.wantBucket(1, 1, 0, 1)

	w.update(kept, func() { kept.Finalizers = nil })
	w.waitGone(kept)
	// Until Bursar sees the deletion, it may still deny a create.
	other := w.configMap("b")
	eventually(w, func() error { return admin.Create(w.ctx, other) })
	w.waitGone(claim)
	w.wantBucket(1, 1, 0, 1)
}

// A namespace takes its objects along, and these their claims in any namespace. The namespace may come back under its
// name.
func TestNamespaceOfObjectsWithClaimsElsewhere(t *testing.T) {
	t.Parallel()
	const objects = 3
	w := newWorld(t)
	w.grant("base", objects)
	space, elsewhere := w.name+"-space", w.claimsIn(w.name+"-claims")
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions[0].Expression = fmt.Sprintf("trigger.metadata.namespace == %q", space)
		elsewhere(p)
	})
	for range 2 {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}
		w.mustCreate(namespace)
		var uids []types.UID
		for i := range objects {
			object := w.configMap(fmt.Sprint("map-", i))
			object.Namespace = space
			// The API server may still take the namespace for the deleted one.
			eventually(w, func() error { return admin.Create(w.ctx, object) })
			w.cleanUp(object)
			uids = append(uids, object.UID)
		}
		w.waitClaims(uids...)
		w.wantBucket(objects, objects, 0, objects)
		w.mustDelete(namespace)
		w.waitRemoved(namespace)
		w.waitClaims()
		w.wantBucket(objects, 0, objects, 0)
	}
}

// Deleting objects at the limit and creating them again under the same names never meets the limit. In the end Bursar
// charges each existing object once. The test runs alone, because a create waits at most three seconds for a release.
func TestManyRecreatedAtOnce(t *testing.T) {
	const names, rounds = 2, 6
	for name, change := range map[string]func(*world) func(*quotav1alpha1.ClaimCreationPolicy){
		"named claims":     func(*world) func(*quotav1alpha1.ClaimCreationPolicy) { return nil },
		"claims elsewhere": func(w *world) func(*quotav1alpha1.ClaimCreationPolicy) { return w.claimsIn(w.name + "-claims") },
		"generated names": func(*world) func(*quotav1alpha1.ClaimCreationPolicy) {
			return func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Target.ResourceClaimTemplate.Metadata.Name = ""
				p.Spec.Target.ResourceClaimTemplate.Metadata.GenerateName = "some-"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.grant("base", names)
			w.policy(w.name, change(w))
			propagations := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
			var group errgroup.Group
			for n := range names {
				group.Go(func() error {
					for round := range rounds {
						object := w.configMap(fmt.Sprint("map-", n))
						if err := admin.Create(w.ctx, object); err != nil {
							return fmt.Errorf("create %s, round %d: %w", object.Name, round, err)
						}
						if err := w.deleteNow(object, propagations[round%len(propagations)]); err != nil {
							return fmt.Errorf("delete %s, round %d: %w", object.Name, round, err)
						}
					}
					return nil
				})
			}
			must(t, group.Wait())
			var uids []types.UID
			for n := range names {
				object := w.configMap(fmt.Sprint("map-", n))
				w.mustCreate(object)
				uids = append(uids, object.UID)
			}
			w.wantExceeded(w.configMap("one-more"))
			w.waitClaims(uids...)
			w.wantBucket(names, names, 0, names)
		})
	}
}

// deleteNow deletes an object. If the garbage collector has a part in the deletion, deleteNow waits for the end.
func (w *world) deleteNow(object client.Object, propagation metav1.DeletionPropagation) error {
	if err := admin.Delete(w.ctx, object, client.PropagationPolicy(propagation)); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(w.ctx, time.Millisecond, removal, true, func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// Nobody deletes a claim by hand while its object lives, and a denied deletion leaves no trace.
func TestClaimIsNotDeletedByHand(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustCreate(w.configMap("a"))
	claim := w.claimOf("a")
	for name, remove := range map[string]func() error{
		"delete":     func() error { return admin.Delete(w.ctx, claim) },
		"delete all": func() error { return admin.DeleteAllOf(w.ctx, claim, client.InNamespace(w.name)) },
		"foreground": func() error {
			return admin.Delete(w.ctx, claim, client.PropagationPolicy(metav1.DeletePropagationForeground))
		},
		"in dry run":  func() error { return admin.Delete(w.ctx, claim, client.DryRunAll) },
		"immediately": func() error { return admin.Delete(w.ctx, claim, client.GracePeriodSeconds(0)) },
	} {
		if err := remove(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "pays for ConfigMap a, which still exists") {
			t.Errorf("%s: got %v, want it to be forbidden because of the object", name, err)
		}
	}
	after := &quotav1alpha1.ResourceClaim{}
	must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(claim), after))
	if after.UID != claim.UID || after.ResourceVersion != claim.ResourceVersion {
		t.Errorf("the claim has changed from %+v to %+v", claim, after)
	}
	w.wantExceeded(w.configMap("b"))
	w.wantBucket(1, 1, 0, 1)
}
