package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// newCountedWorld makes a world with ConfigMaps under a policy without claims, and that limit. change may alter the
// policy first.
func newCountedWorld(t *testing.T, limit int64, change func(*quotav1alpha1.ClaimCreationPolicy)) *world {
	t.Helper()
	w := newWorld(t)
	w.grant("base", limit)
	w.countedPolicy(change)
	return w
}

func (w *world) countedPolicy(change func(*quotav1alpha1.ClaimCreationPolicy)) *quotav1alpha1.ClaimCreationPolicy {
	w.Helper()
	return w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Claims = quotav1alpha1.ClaimsModeNone
		if change != nil {
			change(p)
		}
	})
}

// costs makes the amount of each object the one in its data.
func costs(p *quotav1alpha1.ClaimCreationPolicy) {
	p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Amount = 0
	p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "int(trigger.data.size)"
}

// reviewsUpdates makes the policy review updates, too.
func reviewsUpdates(p *quotav1alpha1.ClaimCreationPolicy) {
	p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
}

func (w *world) sized(name string, size int) *corev1.ConfigMap {
	object := w.configMap(name)
	object.Data = map[string]string{"size": fmt.Sprint(size)}
	return object
}

func (w *world) setSize(name string, size int) error {
	object := w.sized(name, size)
	return admin.Update(w.ctx, object)
}

func TestObjectsCountWithoutClaims(t *testing.T) {
	t.Parallel()
	w := newCountedWorld(t, 2, nil)
	w.mustCreate(w.configMap("a"))
	w.mustCreate(w.configMap("b"))
	w.wantBucket(2, 2, 0, 2)
	got := w.wantExceeded(w.configMap("c"))
	for _, want := range []string{"requested: 1 map, used: 2, limited: 2", "ConfigMap " + w.name + "/a"} {
		if !strings.Contains(got, want) {
			t.Errorf("the message is\n%s\nwant it to say\n%s", got, want)
		}
	}
	if claims := w.claims(); len(claims) > 0 {
		t.Errorf("there are %d claims", len(claims))
	}

	w.mustDelete(w.configMap("a"))
	w.mustCreate(w.configMap("c"))
	w.wantBucket(2, 2, 0, 2)
}

// A completed deletion counts at once, also for an object with another name.
func TestCountedDeleteMakesRoomAtOnce(t *testing.T) {
	w := newCountedWorld(t, 1, nil)
	for i := range 20 {
		must(t, admin.Create(w.ctx, w.configMap(fmt.Sprint("map-", i))))
		w.mustDelete(w.configMap(fmt.Sprint("map-", i)))
	}
	w.wantBucket(1, 0, 1, 0)
}

func TestCountedCreatesNeverExceed(t *testing.T) {
	t.Parallel()
	const limit, clients, creates = 150, 16, 400
	w := newCountedWorld(t, limit, nil)
	var admitted atomic.Int64
	var group errgroup.Group
	group.SetLimit(clients)
	for i := range creates {
		group.Go(func() error {
			switch err := admin.Create(w.ctx, w.configMap(fmt.Sprint("map-", i))); {
			case err == nil:
				admitted.Add(1)
				return nil
			case apierrors.IsForbidden(err), apierrors.IsInternalError(err), apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err):
				return nil
			default:
				return err
			}
		})
	}
	must(t, group.Wait())
	if admitted.Load() > limit {
		t.Fatalf("%d objects exist, the limit is %d", admitted.Load(), limit)
	}
	for i := admitted.Load(); i < limit; i++ {
		must(t, admin.Create(w.ctx, w.configMap(fmt.Sprint("rest-", i))))
	}
	w.wantExceeded(w.configMap("beyond"))
	w.wantBucket(limit, limit, 0, limit)
	w.Cleanup(func() {
		_ = admin.DeleteAllOf(w.Context(), &corev1.ConfigMap{}, client.InNamespace(w.name))
	})
}

// What grows without a review counts all the same.
func TestCountedGrowthWithoutReview(t *testing.T) {
	t.Parallel()
	w := newCountedWorld(t, 10, costs)
	w.mustCreate(w.sized("a", 2))
	must(t, w.setSize("a", 30))
	w.wantBucket(10, 30, 0, 1)
	w.wantExceeded(w.sized("b", 1))
	must(t, w.setSize("a", 3))
	w.mustCreate(w.sized("b", 7))
	w.wantBucket(10, 10, 0, 2)
}

func TestCountedGrowthIsReviewed(t *testing.T) {
	t.Parallel()
	w := newCountedWorld(t, 10, func(p *quotav1alpha1.ClaimCreationPolicy) { costs(p); reviewsUpdates(p) })
	w.mustCreate(w.sized("a", 2))
	w.wantBucket(10, 2, 8, 1)
	wantTooMuch(t, w.setSize("a", 11), "requested: 9 map", "used: 2", "limited: 10")
	must(t, w.setSize("a", 8))
	must(t, w.setSize("a", 10))
	w.wantExceeded(w.sized("b", 1))
	must(t, w.setSize("a", 4))
	w.mustCreate(w.sized("b", 6))
	w.wantBucket(10, 10, 0, 2)
}

// TestCountedGrowthNeverExceeds lets many objects grow at the same time.
func TestCountedGrowthNeverExceeds(t *testing.T) {
	t.Parallel()
	const objects, limit = 20, 60
	w := newCountedWorld(t, limit, func(p *quotav1alpha1.ClaimCreationPolicy) { costs(p); reviewsUpdates(p) })
	for i := range objects {
		w.mustCreate(w.sized(fmt.Sprint("map-", i), 1))
	}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range objects {
		group.Go(func() error {
			for size := 2; size <= 6; size++ {
				err := w.setSize(fmt.Sprint("map-", i), size)
				if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInternalError(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) {
					return err
				}
			}
			return nil
		})
	}
	must(t, group.Wait())
	var list corev1.ConfigMapList
	must(t, admin.List(w.ctx, &list, client.InNamespace(w.name)))
	sum := 0
	for i := range list.Items {
		var size int
		if _, err := fmt.Sscan(list.Items[i].Data["size"], &size); err == nil {
			sum += size
		}
	}
	if sum > limit || sum < limit-5 {
		t.Errorf("the objects demand %d, the limit is %d", sum, limit)
	}
	w.wantBucket(limit, int64(sum), int64(limit-sum), objects)
}

// A finished object returns its quota, because the policy says that it demands nothing.
func TestFinishedObjectDemandsNothing(t *testing.T) {
	t.Parallel()
	w := newCountedWorld(t, 1, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: `!has(trigger.data) || !("done" in trigger.data)`})
	})
	first := w.configMap("a")
	w.mustCreate(first)
	w.wantExceeded(w.configMap("b"))
	first.Data = map[string]string{"done": "yes"}
	must(t, admin.Update(w.ctx, first))
	w.mustCreate(w.configMap("b"))
	w.wantBucket(1, 1, 0, 1)
}

// Whoever a namespace belongs to now pays for what is in it.
func TestNamespaceChangesHands(t *testing.T) {
	t.Parallel()
	const label = "example.com/owner"
	w := newWorld(t)
	w.grant("base", 5)
	owner := w.name + "-heir"
	change(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, func(n *corev1.Namespace) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, label, w.name)
	})
	w.countedPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{index .namespaceObject.metadata.labels "` + label + `"}}`
	})
	w.mustCreate(w.configMap("a"))
	w.wantBucket(5, 1, 4, 1)

	change(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, func(n *corev1.Namespace) { n.Labels[label] = owner })
	w.wantBucket(5, 0, 5, 0)
	heir := *w
	heir.name = owner
	eventually(w, func() error {
		ledger, err := w.ledgerOf(heir.consumer())
		if err != nil {
			return err
		}
		for _, o := range ledger.Spec.Observations {
			for _, d := range o.Demands {
				if d.ResourceType == w.resourceType() && d.Amount == 1 {
					return nil
				}
			}
		}
		return fmt.Errorf("the heir's ledger has observed %+v", ledger.Spec.Observations)
	})
}

func (w *world) ledgerOf(consumer quotav1alpha1.ConsumerRef) (*quotav1alpha1.ConsumerLedger, error) {
	var list quotav1alpha1.ConsumerLedgerList
	if err := admin.List(w.ctx, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Spec.ConsumerRef == consumer {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no ledger", consumer.Name)
}

// Objects from before a policy count without a write for each of them, a changed policy counts them again, and without
// the policy nothing counts.
func TestPolicyRecounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	for i := range 3 {
		w.mustCreate(w.configMap(fmt.Sprint("map-", i)))
	}
	policy := w.countedPolicy(nil)
	w.wantBucket(10, 3, 7, 3)

	change(t, policy, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Amount = 4
	})
	w.wantBucket(10, 12, 0, 3)
	w.wantExceeded(w.configMap("more"))

	w.mustDelete(policy)
	w.wantBucket(10, 0, 10, 0)
	w.wantRecounted(3, 9, -12)
}

// wantRecounted waits until the journal has recounts with these changes.
func (w *world) wantRecounted(changes ...int64) {
	w.Helper()
	eventually(w, func() error {
		history := &quotav1alpha1.QuotaHistory{Spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: w.consumer()}}
		history.Name, history.Namespace = w.name, w.name
		if err := admin.Create(w.ctx, history, client.DryRunAll); err != nil {
			return err
		}
		var got []int64
		for i := range history.Status.Entries {
			if entry := &history.Status.Entries[i]; entry.Kind == quotav1alpha1.JournalEntryRecounted {
				got = append(got, entry.Change)
			}
		}
		if !slices.Equal(got, changes) {
			return fmt.Errorf("the journal has recounts by %d, want %d", got, changes)
		}
		return nil
	})
}
