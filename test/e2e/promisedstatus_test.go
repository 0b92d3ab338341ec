package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// register makes a further resource type of the world known.
func (w *world) register(resourceType string, change func(*quotav1alpha1.ResourceRegistrationSpec)) *quotav1alpha1.ResourceRegistration {
	w.Helper()
	registration := w.registration(resourceType)
	if change != nil {
		change(&registration.Spec)
	}
	w.mustCreate(registration)
	w.waitCondition(registration, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	return registration
}

// nextSecond waits for the next second, because the API server writes times in whole seconds.
func (w *world) nextSecond() {
	w.Helper()
	began := time.Now().Truncate(time.Second)
	eventually(w, func() error {
		if !time.Now().Truncate(time.Second).After(began) {
			return errors.New("the second is not over")
		}
		return nil
	})
}

// wantAllocations waits until a claim's status has these allocations.
func (w *world) wantAllocations(claim *quotav1alpha1.ResourceClaim, want []quotav1alpha1.RequestAllocation, messages ...string) {
	w.Helper()
	ignored := cmpopts.IgnoreFields(quotav1alpha1.RequestAllocation{}, "LastTransitionTime", "Message")
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if diff := cmp.Diff(want, claim.Status.Allocations, ignored); diff != "" {
			return fmt.Errorf("the claim tells of its requests (-want +got):\n%s", diff)
		}
		return nil
	})
	for i, a := range claim.Status.Allocations {
		if !strings.Contains(a.Message, messages[i]) || a.LastTransitionTime.Before(&claim.CreationTimestamp) {
			w.Errorf("request %d is %+v, want a message with %q, and the time of the decision", i, a, messages[i])
		}
	}
	if claim.Status.ObservedGeneration != claim.Generation {
		w.Errorf("the status is about generation %d, want %d", claim.Status.ObservedGeneration, claim.Generation)
	}
}

// A claim's status shows the result of each request, and stays unwritten without a change.
func TestClaimTellsOfEachRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scarce := w.name + "/scarce"
	w.register(scarce, nil)
	grant := w.grantTypes("base", map[string]int64{w.resourceType(): 5, scarce: 1})
	claim := w.claim("two", 2)
	claim.Spec.Requests = append(claim.Spec.Requests, quotav1alpha1.ResourceRequest{ResourceType: scarce, Amount: 3})
	w.mustCreate(claim)
	denied := func(resourceType string) quotav1alpha1.RequestAllocation {
		return quotav1alpha1.RequestAllocation{ResourceType: resourceType, Status: quotav1alpha1.AllocationDenied, Reason: "QuotaExceeded"}
	}
	w.wantAllocations(claim, []quotav1alpha1.RequestAllocation{denied(w.resourceType()), denied(scarce)},
		"another request of this claim", "requested: 3 maps, used: 0, limited: 1 (available: 1)")
	w.wantBucket(5, 0, 5, 0)

	resize := func(amount int64) {
		w.update(grant, func() {
			i := slices.IndexFunc(grant.Spec.Allowances, func(a quotav1alpha1.Allowance) bool { return a.ResourceType == scarce })
			grant.Spec.Allowances[i].Buckets[0].Amount = amount
		})
	}
	resize(3)
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	allocated := func(resourceType string, amount int64) quotav1alpha1.RequestAllocation {
		return quotav1alpha1.RequestAllocation{ResourceType: resourceType, Status: quotav1alpha1.AllocationGranted, Reason: "QuotaAvailable",
			AllocatedAmount: amount, AllocatingBucket: naming.Bucket(w.consumer(), resourceType, nil)}
	}
	w.wantAllocations(claim, []quotav1alpha1.RequestAllocation{allocated(w.resourceType(), 2), allocated(scarce, 3)},
		"allocated 2 maps from bucket organization-", "allocated 3 maps from bucket organization-")
	for _, a := range claim.Status.Allocations {
		var bucket *quotav1alpha1.AllowanceBucket
		eventually(w, func() (err error) { // the view follows the ledger
			bucket, err = bucketOf(w.ctx, w.consumer(), a.ResourceType)
			return err
		})
		if bucket.Name != a.AllocatingBucket {
			t.Errorf("%s is allocated from bucket %s, and there is %s", a.ResourceType, a.AllocatingBucket, bucket.Name)
		}
	}

	// It keeps its quota under any later limit.
	before := claim.ResourceVersion
	resize(1)
	eventually(w, func() error {
		bucket, err := bucketOf(w.ctx, w.consumer(), scarce)
		if err == nil && (bucket.Status.Limit != 1 || bucket.Status.Available != 0 || bucket.Status.Allocated != 3) {
			err = fmt.Errorf("the bucket shows %+v, want 3 of 1 allocated", bucket.Status)
		}
		return err
	})
	must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim))
	if claim.ResourceVersion != before {
		t.Errorf("the claim was written although nothing changed for it: %+v", claim.Status)
	}
}

// Bursar denies a claim that the registrations do not allow, with this reason, and grants it once they do.
func TestClaimsThatRegistrationsDoNotAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	unknown, kind, consumer := w.claim("unknown", 1), w.claim("kind", 1), w.claim("consumer", 1)
	unknown.Spec.Requests[0].ResourceType = w.name + "/unknown"
	kind.Spec.ResourceRef.Kind = "Secret"
	consumer.Spec.ConsumerRef.Kind = "Team"
	for want, claim := range map[string]*quotav1alpha1.ResourceClaim{
		"has no active ResourceRegistration":                      unknown,
		"may not be claimed by Secret":                            kind,
		"is granted to Organization.platform.example.com, not to": consumer,
	} {
		w.mustCreate(claim)
		w.waitReason(claim, quotav1alpha1.ReasonValidationFailed)
		w.wantAllocations(claim, []quotav1alpha1.RequestAllocation{{
			ResourceType: claim.Spec.Requests[0].ResourceType, Status: quotav1alpha1.AllocationDenied, Reason: "ValidationFailed",
		}}, want)
		if c := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted); !strings.Contains(c.Message, want) {
			t.Errorf("the condition says %q, want %q", c.Message, want)
		}
	}
	w.wantBucket(5, 0, 5, 0)
	if bucket, err := bucketOf(w.ctx, w.consumer(), w.name+"/unknown"); err == nil {
		t.Errorf("there is bucket %s of a type that is not registered", bucket.Name)
	}
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	w.update(registration, func() {
		registration.Spec.ClaimingResources = append(registration.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{Kind: "Secret"})
	})
	w.waitCondition(kind, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucket(5, 1, 4, 1)
}

// A resource type without claiming kinds is only for direct claims: policies may not use it.
func TestTypeWithoutClaimingKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	manual := w.name + "/manual"
	w.register(manual, func(s *quotav1alpha1.ResourceRegistrationSpec) { s.ClaimingResources = nil })
	w.grantTypes("base", map[string]int64{manual: 1})
	claim := w.claim("by-hand", 1)
	claim.Spec.Requests[0].ResourceType = manual
	w.mustCreate(claim)
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)

	policy := w.newPolicy(w.name)
	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = manual
	w.mustCreate(policy)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	condition := w.waitCondition(policy, quotav1alpha1.ConditionApplicable, metav1.ConditionFalse)
	if condition.Reason != quotav1alpha1.ReasonClaimNotAllowed || !strings.Contains(condition.Message, "may not be claimed by ConfigMap") {
		t.Errorf("the condition is %+v, want it to say that ConfigMaps may not claim", condition)
	}
	err := admin.Create(w.ctx, w.configMap("a"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not be claimed by ConfigMap") {
		t.Errorf("got %v, want a denial that says that ConfigMaps may not claim", err)
	}
}

// A grant counts with all of its allowances or with none, and gives the reason.
func TestGrantsThatRegistrationsDoNotAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later := w.name + "/later"
	registration := w.registration(later)
	w.cleanUp(registration) // after the grants
	half := w.newGrant("half", quotav1alpha1.Allowance{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 2}}},
		quotav1alpha1.Allowance{ResourceType: later, Buckets: []quotav1alpha1.Bucket{{Amount: 3}}})
	others := w.newGrant("others", half.Spec.Allowances[0])
	others.Spec.ConsumerRef.Kind = "Team"
	for want, grant := range map[string]*quotav1alpha1.ResourceGrant{
		`"` + later + `" has no active ResourceRegistration`:      half,
		"is granted to Organization.platform.example.com, not to": others,
	} {
		w.mustCreate(grant)
		condition := w.waitCondition(grant, quotav1alpha1.ConditionActive, metav1.ConditionFalse)
		if condition.Reason != quotav1alpha1.ReasonValidationFailed || !strings.Contains(condition.Message, want) {
			t.Errorf("the condition is %+v, want it to say %q", condition, want)
		}
	}
	base := w.grant("base", 1)
	w.wantBucket(1, 0, 1, 0)
	must(t, admin.Create(w.ctx, registration))
	w.waitCondition(half, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.wantBucket(3, 0, 3, 0)

	// The condition's transition is the beginning of the grant. Another amount does not change it.
	since := w.waitCondition(base, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	if since.Reason != quotav1alpha1.ReasonGrantActive {
		t.Errorf("the reason is %s, want %s", since.Reason, quotav1alpha1.ReasonGrantActive)
	}
	w.nextSecond()
	w.update(base, func() { base.Spec.Allowances[0].Buckets[0].Amount = 4 })
	now := w.waitCondition(base, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	if !now.LastTransitionTime.Equal(&since.LastTransitionTime) || base.Status.ObservedGeneration != base.Generation {
		t.Errorf("the condition is %+v, want it to be of the new generation and from %s", now, since.LastTransitionTime)
	}
	w.wantBucket(6, 0, 6, 0)
}

// A bucket lists its contributing grants, and stays without any.
func TestWhatABucketIsMadeOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(amounts ...int64) quotav1alpha1.Allowance {
		allowance := quotav1alpha1.Allowance{ResourceType: w.resourceType()}
		for _, amount := range amounts {
			allowance.Buckets = append(allowance.Buckets, quotav1alpha1.Bucket{Amount: amount})
		}
		return allowance
	}
	base, extra := w.give("base", of(1, 2), of(4)), w.give("extra", of(0, 8))
	unregistered := w.newGrant("inactive", of(16), quotav1alpha1.Allowance{ResourceType: "nobody/knows", Buckets: []quotav1alpha1.Bucket{{Amount: 1}}})
	w.mustCreate(unregistered)
	w.waitCondition(unregistered, quotav1alpha1.ConditionActive, metav1.ConditionFalse)
	held, waiting := w.claim("held", 10), w.claim("waiting", 10)
	w.mustCreate(held)
	w.waitCondition(held, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.mustCreate(waiting)
	w.waitReason(waiting, quotav1alpha1.ReasonQuotaExceeded)

	byName := cmpopts.SortSlices(func(a, b quotav1alpha1.ContributingGrantRef) bool { return a.Name < b.Name })
	wantRefs := func(refs ...quotav1alpha1.ContributingGrantRef) *quotav1alpha1.AllowanceBucket {
		t.Helper()
		var bucket *quotav1alpha1.AllowanceBucket
		eventually(w, func() (err error) {
			if bucket, err = w.bucket(); err != nil {
				return err
			}
			if diff := cmp.Diff(refs, bucket.Status.ContributingGrantRefs, cmpopts.EquateEmpty(), byName); diff != "" || int(bucket.Status.GrantCount) != len(refs) {
				return fmt.Errorf("%d grants contribute (-want +got):\n%s", bucket.Status.GrantCount, diff)
			}
			return nil
		})
		return bucket
	}
	w.wantBucket(15, 10, 5, 1)
	first := wantRefs(quotav1alpha1.ContributingGrantRef{Name: "base", Amount: 7, LastObservedGeneration: 1},
		quotav1alpha1.ContributingGrantRef{Name: "extra", Amount: 8, LastObservedGeneration: 1})
	if first.Status.LastReconciliation == nil || first.Status.ObservedGeneration != first.Generation {
		t.Errorf("the status is %+v, want it to say when and of which generation", first.Status)
	}
	if want := naming.Bucket(w.consumer(), w.resourceType(), nil); first.Name != want {
		t.Errorf("the bucket is called %s, want %s", first.Name, want)
	}

	w.update(base, func() { base.Spec.Allowances[1].Buckets[0].Amount = 5 })
	wantRefs(quotav1alpha1.ContributingGrantRef{Name: "base", Amount: 8, LastObservedGeneration: 2},
		quotav1alpha1.ContributingGrantRef{Name: "extra", Amount: 8, LastObservedGeneration: 1})
	w.wantBucket(16, 10, 6, 1)

	w.mustDelete(base)
	w.mustDelete(extra)
	w.wantBucket(0, 10, 0, 1)
	w.mustDelete(held)
	w.wantBucket(0, 0, 0, 0)
	if last := wantRefs(); last.UID != first.UID {
		t.Errorf("the bucket is %s, want the one from before, %s", last.UID, first.UID)
	}
}
