package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// fleet is the kind of the tests with amounts following their objects. It has replicas of some memory, scales, and
// names its payer.
var fleet = schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Fleet"}

// followed is a world with Fleets. They cost one for each replica, and the charge follows their updates.
type followed struct {
	*world
	policy *quotav1alpha1.ClaimCreationPolicy
}

// newFollowedWorld makes a world with a limit for fleets. change may alter its policy first.
func newFollowedWorld(t *testing.T, limit int64, change func(*quotav1alpha1.ClaimCreationPolicy)) *followed {
	t.Helper()
	w := newWorldFor(t, quotav1alpha1.ClaimingResource{APIGroup: fleet.Group, Kind: fleet.Kind})
	w.installFleets()
	w.grant("base", limit)
	f := &followed{world: w}
	f.policy = w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: fleet.GroupVersion().String(), Kind: fleet.Kind}
		p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
		template := &p.Spec.Target.ResourceClaimTemplate.Spec
		template.ConsumerRef.Name = `{{default "` + w.name + `" .trigger.spec.payer}}`
		template.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: w.resourceType(), AmountExpression: "trigger.spec.replicas"}}
		if change != nil {
			change(p)
		}
	})
	return f
}

// installFleets makes the server know Fleets.
func (w *world) installFleets() {
	w.Helper()
	definition := platform.ScalableDefinition(fleet.Group, fleet.Kind, "fleets")
	if err := admin.Create(w.ctx, definition); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	eventually(w, func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(fleet.GroupVersion().WithKind("FleetList"))
		return admin.List(w.ctx, list)
	})
}

func (w *world) fleet(name string, replicas int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas}}}
	object.SetGroupVersionKind(fleet)
	object.SetNamespace(w.name)
	object.SetName(name)
	return object
}

// set changes a field of the stored fleet.
func (w *world) set(name string, value any, path ...string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object := w.fleet(name, 0)
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			return err
		}
		return admin.Update(w.ctx, object)
	})
}

// resize changes the number of a fleet's replicas.
func (w *world) resize(name string, replicas int64) error {
	return w.set(name, replicas, "spec", "replicas")
}

// scale changes the number of a fleet's replicas through the scale subresource.
func (w *world) scale(name string, replicas int32, options ...client.SubResourceUpdateOption) error {
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	return admin.SubResource("scale").Update(w.ctx, w.fleet(name, 0), append(options, client.WithSubResourceBody(scale))...)
}

func wantTooMuch(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want it to be forbidden", err)
	}
	for _, part := range append(parts, "exceeded quota") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want it to say %q", err, part)
		}
	}
}

// The claim of a policy on creates may name the object's creator. Objects created past enforcement do not count by such
// a policy, because nobody knows who created them.
func TestClaimThatSaysWhoAskedForIt(t *testing.T) {
	t.Parallel()
	const by, of = "example.com/by", "example.com/of"
	f := newFollowedWorld(t, 5, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Operations = nil
		p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = map[string]string{by: "{{index .user.groups 0}}", of: "{{.trigger.metadata.name}}"}
	})
	glass, _ := adminWithWarnings(t, as("jane", quotav1alpha1.BreakGlassGroup))
	unasked := f.fleet("b", 1)
	must(t, glass.Create(f.ctx, unasked))
	f.cleanUp(unasked)
	f.mustCreate(f.fleet("a", 1))
	f.wantBucket(5, 1, 4, 1)
	annotations := f.claimOf("a").Annotations
	if annotations[by] != "system:masters" || annotations[of] != "a" {
		t.Errorf("the claim has the annotations %q, want the creator and the name", annotations)
	}
}

func TestChargeFollowsUpdates(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 2))
	f.wantBucket(5, 2, 3, 1)
	must(t, f.resize("a", 4))
	f.wantBucket(5, 4, 1, 1)
	wantTooMuch(t, f.resize("a", 6), "requested: 2 map", "used: 4", "limited: 5")
	f.wantBucket(5, 4, 1, 1)
	must(t, f.resize("a", 1))
	// Quota freed by an update is available at once.
	f.mustCreate(f.fleet("b", 4))
	f.wantBucket(5, 5, 0, 2)
	eventually(f, func() error {
		for _, claim := range f.claims() {
			want := map[string]int64{f.name + "-a": 1, f.name + "-b": 4}[claim.Name]
			got := claim.Status.Allocations[0].AllocatedAmount
			if claim.Spec.Requests[0].Amount != want || got != want || claim.Status.ObservedGeneration != claim.Generation {
				return fmt.Errorf("claim %s requests %d and is allocated %d, want %d", claim.Name, claim.Spec.Requests[0].Amount, got, want)
			}
		}
		return nil
	})
	must(t, f.set("a", "new", "metadata", "labels", "release"))
	f.wantBucket(5, 5, 0, 2)
}

func TestChargeFollowsScale(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 1))
	f.wantBucket(5, 1, 4, 1)
	wantTooMuch(t, f.scale("a", 6), "requested: 5 maps", "used: 1", "limited: 5")
	wantTooMuch(t, f.scale("a", 6, client.DryRunAll))
	must(t, f.scale("a", 5, client.DryRunAll))
	f.wantBucket(5, 1, 4, 1)
	must(t, f.scale("a", 5))
	f.wantBucket(5, 5, 0, 1)
	must(t, f.scale("a", 0))
	f.wantBucket(5, 0, 5, 0)
	f.waitClaims() // a claim goes after its charge
	must(t, f.scale("a", 3))
	f.wantBucket(5, 3, 2, 1)
}

// Many clients scale at once. The limit holds, and in the end the ledger and the objects agree.
func TestUpdatesAtOnce(t *testing.T) {
	t.Parallel()
	const fleets, limit = 4, 20
	f := newFollowedWorld(t, limit, nil)
	for i := range fleets {
		f.mustCreate(f.fleet(fmt.Sprint("f", i), 1))
	}
	var group errgroup.Group
	for worker := range 8 {
		group.Go(func() error {
			for round := range 12 {
				name, replicas := fmt.Sprint("f", (worker+round)%fleets), int64(1+(worker*7+round*5)%9)
				if err := f.resize(name, replicas); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsConflict(err) && !apierrors.IsServiceUnavailable(err) {
					return err
				}
				var list unstructured.UnstructuredList
				list.SetGroupVersionKind(fleet.GroupVersion().WithKind("FleetList"))
				if err := admin.List(f.ctx, &list, client.InNamespace(f.name)); err != nil {
					return err
				}
				if total := replicasOf(list.Items); total > limit {
					return fmt.Errorf("%d replicas of %d", total, limit)
				}
			}
			return nil
		})
	}
	must(t, group.Wait())
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(fleet.GroupVersion().WithKind("FleetList"))
	must(t, admin.List(f.ctx, &list, client.InNamespace(f.name)))
	total := replicasOf(list.Items)
	f.wantBucket(limit, total, limit-total, fleets)
}

func replicasOf(items []unstructured.Unstructured) (total int64) {
	for _, item := range items {
		replicas, _, _ := unstructured.NestedInt64(item.Object, "spec", "replicas")
		total += replicas
	}
	return total
}

// A change of the payer moves the charge, if the new one can pay.
func TestChargeMovesToAnotherConsumer(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	other := f.name + "-other"
	f.grantTo(other, "other", 3)
	f.mustCreate(f.fleet("a", 4))
	f.wantBucket(5, 4, 1, 1)
	wantTooMuch(t, f.set("a", other, "spec", "payer"), "Organization "+other, "requested: 4")
	f.wantBucket(5, 4, 1, 1)
	must(t, f.resize("a", 3))
	must(t, f.set("a", other, "spec", "payer"))
	f.wantBucket(5, 0, 5, 0)
	f.wantBucketOf(platform.Consumer(other), 3, 3, 0, 1)
	must(t, f.set("a", f.name, "spec", "payer"))
	f.wantBucket(5, 3, 2, 1)
	f.wantBucketOf(platform.Consumer(other), 3, 0, 3, 0)
}

// An update can make an object meet the conditions. From then on Bursar charges it, until it no longer meets them.
func TestConditionsFollowUpdates(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: "!has(trigger.spec.free)"})
	})
	free := f.fleet("a", 3)
	must(t, unstructured.SetNestedField(free.Object, true, "spec", "free"))
	f.mustCreate(free)
	f.mustCreate(f.fleet("b", 3))
	f.wantBucket(5, 3, 2, 1)
	unset := func(name string) error {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"free":null}}`))
		return admin.Patch(f.ctx, f.fleet(name, 0), patch)
	}
	wantTooMuch(t, unset("a"))
	must(t, f.set("b", true, "spec", "free"))
	f.wantBucket(5, 0, 5, 0)
	must(t, unset("a"))
	f.wantBucket(5, 3, 2, 1)
}

// A policy on creates does not start to apply because another policy follows updates.
func TestPoliciesOnCreatesIgnoreUpdates(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	gold := f.world.policy(f.name+"-gold", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec = *f.policy.Spec.DeepCopy()
		p.Spec.Trigger.Operations = nil
		keepsClaims(p)
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: "has(trigger.spec.gold)"})
		p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "gold-{{.trigger.metadata.name}}"
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: f.resourceType(), Amount: 100}}
	})
	f.waitCondition(gold, quotav1alpha1.ConditionAdopted, metav1.ConditionTrue) // the object comes after the scan
	f.mustCreate(f.fleet("a", 1))
	f.wantBucket(5, 1, 4, 1)
	must(t, f.set("a", true, "spec", "gold"))
	must(t, f.resize("a", 2))
	f.wantBucket(5, 2, 3, 1)
	must(t, f.resize("a", 3))
	f.wantBucket(5, 3, 2, 1)
	// Nor does it because the other policy's claim goes.
	other := f.name + "-other"
	f.grantTo(other, "other", 5)
	before := f.name
	for _, payer := range []string{other, f.name, other} {
		must(t, f.set("a", payer, "spec", "payer"))
		f.wantBucketOf(platform.Consumer(payer), 5, 3, 2, 1)
		f.wantBucketOf(platform.Consumer(before), 5, 0, 5, 0) // it is charged again in the next round
		before = payer
	}
}

// An object frees quota by one policy. Its next update can use the quota for another policy, but the same update
// cannot.
func TestUpdateTakesWhatItsObjectFreed(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.world.policy(f.name+"-extra", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec = *f.policy.Spec.DeepCopy()
		p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "extra-{{.trigger.metadata.name}}"
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "has(trigger.spec.extra) ? trigger.spec.extra : 0"
	})
	f.mustCreate(f.fleet("a", 4))
	must(t, f.set("a", int64(1), "spec", "extra"))
	f.wantBucket(5, 5, 0, 2)
	both := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1,"extra":4}}`))
	wantTooMuch(t, admin.Patch(f.ctx, f.fleet("a", 0), both), "requested: 3", "used: 5", "limited: 5")
	for range 5 {
		must(t, f.resize("a", 1))
		must(t, f.set("a", int64(4), "spec", "extra"))
		must(t, f.set("a", int64(1), "spec", "extra"))
		must(t, f.resize("a", 4))
	}
	f.wantBucket(5, 5, 0, 2)
}

// People can change and delete an object even if its policy now fails for it.
func TestUpdateOfWhatThePolicyCannotBeAppliedTo(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	held := f.fleet("a", 1)
	held.SetFinalizers([]string{"example.com/hold"})
	must(t, admin.Create(f.ctx, held))
	f.wantBucket(5, 1, 4, 1)
	f.update(f.policy, func() {
		f.policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "trigger.spec.size"
	})
	f.waitCondition(f.policy, quotav1alpha1.ConditionReady, "True")
	must(t, f.set("a", "x", "metadata", "labels", "note"))
	must(t, admin.Delete(f.ctx, f.fleet("a", 0)))
	must(t, admin.Patch(f.ctx, f.fleet("a", 0), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	f.wantBucket(5, 0, 5, 0)
	if err := admin.Create(f.ctx, f.fleet("b", 1)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no such key: size") {
		t.Errorf("got %v, want it to be forbidden with the field that is missing", err)
	}
}

// An update right after the create waits only for the claim.
func TestUpdatesRightAfterCreates(t *testing.T) {
	t.Parallel()
	const fleets = 24
	f := newFollowedWorld(t, 1000, nil)
	var group errgroup.Group
	for i := range fleets {
		group.Go(func() error {
			name := fmt.Sprint("f", i)
			if err := admin.Create(f.ctx, f.fleet(name, 1)); err != nil {
				return err
			}
			if err := f.resize(name, 3); err != nil {
				return fmt.Errorf("resize at once: %w", err)
			}
			return f.scale(name, 2)
		})
	}
	must(t, group.Wait())
	f.wantBucket(1000, 2*fleets, 1000-2*fleets, fleets)
}

// Bursar charges a change past enforcement in full, even beyond the limit.
func TestBreakGlassOnUpdate(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 4))
	f.wantBucket(5, 4, 1, 1)
	api, _ := adminWithWarnings(t, as("jane", quotav1alpha1.BreakGlassGroup))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":7}}`))
	must(t, api.Patch(f.ctx, f.fleet("a", 0), patch))
	f.wantBucket(5, 7, 0, 1)
	must(t, f.resize("a", 6))
	f.wantBucket(5, 6, 0, 1)
	wantTooMuch(t, f.resize("a", 8))
	scaler, _ := adminWithWarnings(t, as("joe", quotav1alpha1.BreakGlassGroup))
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 9}}
	must(t, scaler.SubResource("scale").Update(f.ctx, f.fleet("a", 0), client.WithSubResourceBody(scale)))
	f.wantBucket(5, 9, 0, 1)
	f.wantEventOn(fleet.Kind, "a", "BrokenGlass", "UPDATE by jane")
	f.wantEventOn(fleet.Kind, "a", "BrokenGlass", "UPDATE by joe")
}

// The event on a scale past a policy in audit mode names the fleet, rather than its Scale.
func TestAuditOfScale(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, inMode(quotav1alpha1.EnforcementModeAudit))
	for _, name := range []string{"a", "b"} {
		f.mustCreate(f.fleet(name, 2))
	}
	f.wantBucket(5, 4, 1, 2) // nothing is held for a create in this mode, so the ledger has it once it has seen the object
	for _, name := range []string{"a", "b"} {
		must(t, f.scale(name, 6))
		f.wantEvent(f.policy, fleet.Kind, name, "NotEnforced", "UPDATE of", "exceeded quota")
	}
	f.wantBucket(5, 12, 0, 2)
}

// Deleting an object right after it grew frees all of it.
func TestDeletionRightAfterUpdate(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	for range 5 {
		must(t, admin.Create(f.ctx, f.fleet("a", 1)))
		must(t, f.resize("a", 5))
		must(t, admin.Delete(f.ctx, f.fleet("a", 0)))
	}
	f.wantBucket(5, 0, 5, 0)
	f.mustCreate(f.fleet("a", 5))
	f.wantBucket(5, 5, 0, 1)
}

// Amounts may be quantities, as in the object.
func TestQuantities(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 1000, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "quantity(trigger.spec.memory)"
	})
	object := f.fleet("a", 1)
	must(t, unstructured.SetNestedField(object.Object, "0.5k", "spec", "memory"))
	f.mustCreate(object)
	f.wantBucket(1000, 500, 500, 1)
	wantTooMuch(t, f.set("a", "2k", "spec", "memory"), "requested: 1500")
	if err := f.set("a", "much", "spec", "memory"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "requests[0].amountExpression") {
		t.Errorf("got %v, want it to be forbidden with the field of the policy", err)
	}
	must(t, f.set("a", "1k", "spec", "memory"))
	f.wantBucket(1000, 1000, 0, 1)
}

// grantTo grants another consumer some of the world's resource type.
func (w *world) grantTo(consumer, name string, amount int64) {
	w.Helper()
	grant := &quotav1alpha1.ResourceGrant{}
	grant.Name, grant.Namespace = name, w.name
	grant.Spec = quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer(consumer),
		Allowances:  []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
	}
	w.mustCreate(grant)
	w.waitCondition(grant, quotav1alpha1.ConditionActive, "True")
}

// wantBucketOf waits until the bucket of another consumer shows these numbers.
func (w *world) wantBucketOf(consumer quotav1alpha1.ConsumerRef, limit, allocated, available int64, claims int32) {
	w.Helper()
	eventually(w, func() error {
		bucket, err := bucketOf(context.Background(), consumer, w.resourceType())
		if err != nil {
			return err
		}
		s := bucket.Status
		if s.Limit != limit || s.Allocated != allocated || s.Available != available || s.ClaimCount != claims {
			return errors.New("the bucket of " + consumer.Name + fmt.Sprintf(" shows %d, %d, %d, %d", s.Limit, s.Allocated, s.Available, s.ClaimCount))
		}
		return nil
	})
}
