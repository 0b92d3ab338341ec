package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestDenialExplainsItself(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	w.mustCreate(w.configMap("a"))
	w.mustCreate(w.configMap("b"))
	got := w.wantExceeded(w.configMap("c"))
	for _, want := range []string{
		"exceeded quota: ConfigMap quota of Organization " + w.name + ", requested: 1 map, used: 2, limited: 2. ",
		"Delete what Organization " + w.name + " no longer needs, or ask an administrator to grant it more. ",
		"To see its quota: kubectl get ergrant -n ",
		"; to ask for more: bursar request " + w.resourceType() + "=+1 --for Organization/" + w.name + " -n ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the message is\n%s\nwant it to say\n%s", got, want)
		}
	}
	w.wantBucket(2, 2, 0, 2)
}

func TestClaimOfPolicy(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 5)
	object := w.configMap("a")
	w.mustCreate(object)
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-a", Namespace: w.name}}
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)

	wantLabels := map[string]string{
		quotav1alpha1.LabelAutoCreated:  "true",
		quotav1alpha1.LabelPolicy:       w.name,
		quotav1alpha1.LabelGVK:          "v1.ConfigMap",
		quotav1alpha1.LabelView:         "true",
		quotav1alpha1.LabelConsumerKind: w.consumer().Kind,
		quotav1alpha1.LabelConsumerName: w.name,
	}
	if diff := cmp.Diff(wantLabels, claim.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	for _, annotation := range []string{quotav1alpha1.AnnotationCreatedBy, quotav1alpha1.AnnotationCreatedAt, quotav1alpha1.AnnotationResourceName} {
		if claim.Annotations[annotation] == "" {
			t.Errorf("annotation %s is missing", annotation)
		}
	}
	wantOwner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: object.UID, Controller: new(false), BlockOwnerDeletion: new(false)}}
	if diff := cmp.Diff(wantOwner, claim.OwnerReferences); diff != "" {
		t.Errorf("owner references (-want +got):\n%s", diff)
	}
	wantRef := quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "a", Namespace: w.name}
	if claim.Spec.ResourceRef != wantRef {
		t.Errorf("resourceRef is %+v, want %+v", claim.Spec.ResourceRef, wantRef)
	}
	if len(claim.Finalizers) > 0 {
		t.Errorf("the view has the finalizers %q, and would delay its deletion", claim.Finalizers)
	}
	if len(claim.Status.Allocations) != 1 || claim.Status.Allocations[0].Status != quotav1alpha1.AllocationGranted ||
		claim.Status.Allocations[0].AllocatedAmount != 1 {
		t.Errorf("allocations are %+v, want one of amount 1, granted", claim.Status.Allocations)
	}
	w.wantBucket(5, 1, 4, 1)
	bucket, err := w.bucket()
	if err != nil {
		t.Fatal(err)
	}
	if got := claim.Status.Allocations[0].AllocatingBucket; got != bucket.Name {
		t.Errorf("allocatingBucket is %q, want %q", got, bucket.Name)
	}
}

func TestSameNameAgainIsNotCharged(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int64{"with room": 5, "at the limit": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newProtectedWorld(t, limit)
			w.mustCreate(w.configMap("a"))
			for range 10 {
				if err := admin.Create(w.ctx, w.configMap("a")); !apierrors.IsAlreadyExists(err) {
					t.Fatalf("create again: got %v, want AlreadyExists", err)
				}
			}
			w.wantBucket(limit, 1, limit-1, 1)
		})
	}
}

// TestDeleteAndRecreateAtOnce runs alone, because a create waits at most three seconds for a release.
func TestDeleteAndRecreateAtOnce(t *testing.T) {
	w := newProtectedWorld(t, 1)
	for i := range 20 {
		if err := admin.Create(w.ctx, w.configMap("a")); err != nil {
			t.Fatalf("create, round %d: %v", i, err)
		}
		w.mustDelete(w.configMap("a"))
	}
	w.mustCreate(w.configMap("a"))
	w.wantBucket(1, 1, 0, 1)
}

func TestDeleteMakesRoom(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	first := w.configMap("a")
	w.mustCreate(first)
	w.wantExceeded(w.configMap("b"))
	w.mustDelete(first)
	eventually(w, func() error { return admin.Create(w.ctx, w.configMap("b")) })
	w.cleanUp(w.configMap("b"))
	w.wantBucket(1, 1, 0, 1)
}

func TestClaimInAnotherNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	other := w.name + "-claims"
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}})
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = "{{.trigger.metadata.namespace}}-claims"
	})
	object := w.configMap("a")
	w.mustCreate(object)
	w.wantExceeded(w.configMap("b"))
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-a", Namespace: other}}
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	if claim.Annotations[quotav1alpha1.AnnotationResourceUID] != string(object.UID) {
		t.Errorf("annotation %s is %q, want %q", quotav1alpha1.AnnotationResourceUID, claim.Annotations[quotav1alpha1.AnnotationResourceUID], object.UID)
	}
	w.mustDelete(object)
	w.wantBucket(1, 0, 1, 0)
	eventually(w, func() error {
		if claims := w.claims(); len(claims) > 0 {
			return fmt.Errorf("%d claims are left", len(claims))
		}
		return nil
	})
}

func TestMissingNamespaceOfClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		keepsClaims(p)
		p.Spec.Target.ResourceClaimTemplate.Metadata.Namespace = "nowhere"
	})
	err := admin.Create(w.ctx, w.configMap("a"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "namespace nowhere") || strings.Contains(err.Error(), "exceeded") {
		t.Errorf("got %v, want a refusal that names the missing namespace", err)
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	if err := admin.Create(w.ctx, w.configMap("a"), client.DryRunAll); err != nil {
		t.Fatalf("dry run that fits: %v", err)
	}
	w.mustCreate(w.configMap("a"))
	w.wantBucket(1, 1, 0, 1)
	before := w.ledgerVersion()
	w.wantExceeded(w.configMap("b"), client.DryRunAll)
	if after := w.ledgerVersion(); after != before {
		t.Errorf("the ledger went from version %s to %s in a dry run", before, after)
	}
}

func TestDenialWritesNothing(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 0)
	w.wantExceeded(w.configMap("a"))
	before := w.ledgerVersion()
	for range 20 {
		w.wantExceeded(w.configMap("a"))
	}
	if after := w.ledgerVersion(); after != before {
		t.Errorf("the ledger went from version %s to %s while creates were denied", before, after)
	}
	if claims := w.claims(); len(claims) > 0 {
		t.Errorf("%d claims exist after denials, want none", len(claims))
	}
}

// ledgerVersion is the version of the stored ledger of the world's consumer. First it waits until nothing in the ledger
// needs another write: no reservation its settlement, no change the journal.
func (w *world) ledgerVersion() string {
	w.Helper()
	var version string
	eventually(w, func() error {
		var list quotav1alpha1.ConsumerLedgerList
		if err := admin.List(w.ctx, &list); err != nil {
			return err
		}
		for _, ledger := range list.Items {
			if ledger.Spec.ConsumerRef == w.consumer() {
				version = ledger.ResourceVersion
				if len(ledger.Spec.Reservations) > 0 {
					return errors.New("reservations are in flight")
				}
				if journal := ledger.Spec.Journal; journal != nil && (len(journal.Records) > 0 || journal.OpenedAt != 0) {
					return errors.New("the journal does not have all changes yet")
				}
				return nil
			}
		}
		return errors.New("there is no ledger")
	})
	return version
}

func TestTwoPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := w.name + "/others"
	w.mustCreate(w.registration(second))
	w.grantTypes("base", map[string]int64{w.resourceType(): 3, second: 2})
	first := w.policy(w.name+"-1", nil)
	w.policy(w.name+"-2", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = second
	})
	w.mustCreate(w.configMap("a"))
	w.mustCreate(w.configMap("b"))
	w.wantExceeded(w.configMap("c"))
	w.wantBucket(3, 2, 1, 2) // the first policy's charge for c came back

	w.mustDelete(first)
	w.wantExceeded(w.configMap("c")) // the second one still enforces
}

func TestMultiResourceClaimIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scarce, scarcer := w.name+"/scarce", w.name+"/scarcer"
	w.mustCreate(w.registration(scarce))
	w.mustCreate(w.registration(scarcer))
	w.grantTypes("base", map[string]int64{w.resourceType(): 10, scarce: 1, scarcer: 0})
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{
			{ResourceType: w.resourceType(), Amount: 1}, {ResourceType: scarce, Amount: 2}, {ResourceType: scarcer, Amount: 3},
		}
	})
	message := w.wantExceeded(w.configMap("a"))
	for _, part := range []string{"requested: 2 maps, used: 0, limited: 1", "requested: 3 maps, used: 0, limited: 0"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message is %q, want it to contain %q", message, part)
		}
	}
	if strings.Contains(message, "limited: 10") {
		t.Errorf("the message %q names a type that did not fall short", message)
	}
	w.wantBucket(10, 0, 10, 0)
}

func TestConcurrentCreatesNeverExceed(t *testing.T) {
	t.Parallel()
	const limit, clients, objects = 50, 32, 500
	w := newProtectedWorld(t, limit)
	for round := range 2 {
		var created, refused atomic.Int64
		var group sync.WaitGroup
		work := make(chan int)
		for range clients {
			group.Go(func() {
				for n := range work {
					err := admin.Create(w.ctx, w.configMap(fmt.Sprintf("r%d-%d", round, n)))
					switch {
					case err == nil:
						created.Add(1)
					case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
						refused.Add(1)
					default:
						t.Errorf("create: %v", err)
					}
				}
			})
		}
		for n := range objects {
			work <- n
		}
		close(work)
		group.Wait()
		if created.Load() != limit || refused.Load() != objects-limit {
			t.Fatalf("%d were created and %d refused, want %d and %d", created.Load(), refused.Load(), limit, objects-limit)
		}
		w.wantBucket(limit, limit, 0, limit)
		if err := admin.DeleteAllOf(w.ctx, &corev1.ConfigMap{}, client.InNamespace(w.name)); err != nil {
			t.Fatal(err)
		}
		w.wantBucket(limit, 0, limit, 0)
	}
}

func TestGenerateName(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	for range 2 {
		object := w.configMap("")
		object.GenerateName = "some-"
		w.mustCreate(object)
	}
	w.wantExceeded(w.configMap("c"))
	w.wantBucket(2, 2, 0, 2)
}

func TestNamespaceDeletionFreesEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	space := w.name + "-space"
	w.grant("base", 2)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions[0].Expression = fmt.Sprintf("trigger.metadata.namespace == %q", space)
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}
	w.mustCreate(namespace)
	for _, name := range []string{"a", "b"} {
		object := w.configMap(name)
		object.Namespace = space
		w.mustCreate(object)
	}
	w.wantBucket(2, 2, 0, 2)
	w.mustDelete(namespace)
	w.waitRemoved(namespace)
	w.wantBucket(2, 0, 2, 0)
}

func TestDisabledPolicyIsNotEnforced(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 0)
	w.wantExceeded(w.configMap("a"))
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	disabled := false
	w.update(policy, func() { policy.Spec.Enabled = &disabled })
	condition := w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
	if condition.Reason != quotav1alpha1.ReasonPolicyDisabled {
		t.Errorf("the reason is %s, want %s", condition.Reason, quotav1alpha1.ReasonPolicyDisabled)
	}
	w.mustCreate(w.configMap("a"))
}

func TestConditionErrorTellsTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: "trigger.data.missing == 'x'"})
	})
	err := admin.Create(w.ctx, w.configMap("a"))
	if !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "exceeded") || !strings.Contains(err.Error(), w.name) {
		t.Errorf("got %v, want a refusal that names the policy and does not speak of quota that is exceeded", err)
	}
}

func TestDirectClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 3)
	first, second, small := w.claim("first", 3), w.claim("second", 4), w.claim("small", 1)
	w.mustCreate(first)
	w.waitCondition(first, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.mustCreate(second)
	w.waitReason(second, quotav1alpha1.ReasonQuotaExceeded)
	w.mustCreate(small)
	w.waitReason(small, quotav1alpha1.ReasonQuotaExceeded)

	// This raise is enough only for the smaller claim.
	grant.Spec.Allowances[0].Buckets[0].Amount = 4
	if err := admin.Update(w.ctx, grant); err != nil {
		t.Fatal(err)
	}
	w.waitCondition(small, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.waitReason(second, quotav1alpha1.ReasonQuotaExceeded)

	// Capacity comes back.
	w.mustDelete(first)
	w.mustDelete(small)
	w.waitCondition(second, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucket(4, 4, 0, 1)

	// A limit below the usage evicts nothing and grants nothing.
	change(t, grant, func(g *quotav1alpha1.ResourceGrant) { g.Spec.Allowances[0].Buckets[0].Amount = 2 })
	w.wantBucket(2, 4, 0, 1)
	third := w.claim("third", 1)
	w.mustCreate(third)
	w.waitReason(third, quotav1alpha1.ReasonQuotaExceeded)
	w.waitCondition(second, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
}

// waitReason waits until a claim is not granted, with that reason.
func (w *world) waitReason(claim *quotav1alpha1.ResourceClaim, reason string) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		condition := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
		if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != reason {
			return fmt.Errorf("claim %s says %+v, want it not granted for %s", claim.Name, condition, reason)
		}
		return nil
	})
}

// TestAdviceOfARegistration expects the advice of a registration in denials and in waiting claims.
func TestAdviceOfARegistration(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustCreate(w.configMap("a"))
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	w.update(registration, func() {
		metav1.SetMetaDataAnnotation(&registration.ObjectMeta, quotav1alpha1.AnnotationExceededAdvice, "See https://example.com/{{name}}.")
	})
	want := " See https://example.com/" + w.name + ". "
	eventually(w, func() error {
		if err := admin.Create(w.ctx, w.configMap("b")); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("got %v, want it to say %q", err, want)
		}
		return nil
	})
	waiting := w.claim("waiting", 1)
	w.mustCreate(waiting)
	w.waitReason(waiting, quotav1alpha1.ReasonQuotaExceeded)
	if want, got := "used: 1, limited: 1. See https://example.com/"+w.name+". ", waiting.Status.Allocations[0].Message; !strings.Contains(got, want) {
		t.Errorf("the claim says %q, want it to end in %q", got, want)
	}
}
