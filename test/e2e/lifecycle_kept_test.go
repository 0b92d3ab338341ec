package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A person's own claim keeps its quota, regardless of its object and of the policies for such objects: nothing ties the
// claim to them.
func TestClaimKeptByAPersonStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	policy := w.policy(w.name, nil)
	w.mustCreate(w.configMap("deleted"))
	w.mustCreate(w.configMap("recreated"))
	kept := []*quotav1alpha1.ResourceClaim{w.claim("never", 1), w.claim("deleted", 1), w.claim("recreated", 1)}
	// This claim has the name of a claim that the policy will make for a later object.
	taken := w.claim(w.name+"-later", 1)
	kept = append(kept, taken)
	for _, claim := range kept {
		w.mustCreate(claim)
		w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	}
	w.wantBucket(10, 6, 4, 6)

	must(t, admin.Delete(w.ctx, w.configMap("deleted")))
	must(t, admin.Delete(w.ctx, w.configMap("recreated")))
	w.wantBucket(10, 4, 6, 4) // Bursar removes the policy's own claims
	w.mustCreate(w.configMap("recreated"))
	w.mustCreate(w.configMap("later"))
	w.wantBucket(10, 6, 4, 6)
	must(t, admin.Delete(w.ctx, w.configMap("later")))
	w.wantBucket(10, 5, 5, 5)
	w.wantKept(kept)

	// A changed policy counts every object again, and may not take these claims for its own.
	w.update(policy, func() { policy.Spec.Trigger.Conditions[0].Message = "again" })
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if a := policy.Status.Adoption; a == nil || a.ObservedGeneration != policy.Generation || a.State != quotav1alpha1.AdoptionComplete {
			return fmt.Errorf("adoption is %+v", a)
		}
		return nil
	})
	w.wantBucket(10, 5, 5, 5)
	w.mustDelete(policy)
	w.waitGone(policy)
	must(t, admin.Delete(w.ctx, w.configMap("recreated")))
	w.wantBucket(10, 4, 6, 4)
	w.wantKept(kept)

	// A person may release a claim of their own at any time.
	for _, claim := range kept {
		must(t, admin.Delete(w.ctx, claim))
	}
	w.wantBucket(10, 0, 10, 0)
	w.waitClaims()
}

// wantKept checks that claims are the same as at their grant.
func (w *world) wantKept(claims []*quotav1alpha1.ResourceClaim) {
	w.Helper()
	for _, before := range claims {
		after := &quotav1alpha1.ResourceClaim{}
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(before), after); err != nil {
			w.Errorf("claim %s: %v", before.Name, err)
		} else if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
			w.Errorf("claim %s has changed from %+v to %+v", before.Name, before, after)
		}
	}
}

// A person gave a claim an owner. The claim goes when the garbage collector finds the owner gone, and its quota
// returns. If the owner's deletion orphans the claim, it stays.
func TestClaimOwnedByAnObject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason      string
		propagation metav1.DeletionPropagation
		stays       bool
	}{
		"background": {"the owner is gone", metav1.DeletePropagationBackground, false},
		"foreground": {"the owner waits for what it owns", metav1.DeletePropagationForeground, false},
		"orphan":     {"whoever deleted the owner wanted to keep what it owns", metav1.DeletePropagationOrphan, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.grant("base", 3)
			w.waitCollected()
			owner := w.configMap("owner")
			must(t, admin.Create(w.ctx, owner))
			block := true
			claim, waiting := w.claim("held", 3), w.claim("waiting", 2)
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: &block}}
			w.mustCreate(claim)
			w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
			w.mustCreate(waiting)
			w.waitReason(waiting, quotav1alpha1.ReasonQuotaExceeded)

			must(t, admin.Delete(w.ctx, owner, client.PropagationPolicy(tt.propagation)))
			w.waitRemoved(owner)
			if !tt.stays {
				w.waitRemoved(claim)
				w.waitCondition(waiting, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
				w.wantBucket(3, 2, 1, 1)
				return
			}
			w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
			if len(claim.OwnerReferences) > 0 || claim.DeletionTimestamp != nil {
				t.Errorf("%s: the claim is %+v, want it to stay without an owner", tt.reason, claim.ObjectMeta)
			}
			w.wantBucket(3, 3, 0, 1)
		})
	}
}
