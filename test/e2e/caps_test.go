package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/test/platform"
)

// setCaps sets the caps of the world's resource type. 0: none.
func (w *world) setCaps(perConsumer, total int64) {
	w.Helper()
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	change(w, registration, func(r *quotav1alpha1.ResourceRegistration) {
		r.Spec.MaxPerConsumer, r.Spec.MaxTotal = nil, nil
		if perConsumer > 0 {
			r.Spec.MaxPerConsumer = new(perConsumer)
		}
		if total > 0 {
			r.Spec.MaxTotal = new(total)
		}
	})
}

// anyGrant is a grant of the world's resource type to a consumer.
func (w *world) anyGrant(name, consumer string, amount int64) *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: platform.Consumer(consumer),
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
		},
	}
}

// wantTooMuch returns an error unless the webhook rejects a grant of an amount because of a cap.
func (w *world) wantTooMuch(amount int64, of string) error {
	err := admin.Create(w.ctx, w.anyGrant("huge", w.name, amount), client.DryRunAll)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), of) {
		return fmt.Errorf("got %v for a grant of %d beyond the cap %s", err, amount, of)
	}
	return nil
}

// granted returns the sum of the limits of the world's resource type in all ledgers, at one time.
func (w *world) granted() ledger.Amount {
	w.Helper()
	var list quotav1alpha1.ConsumerLedgerList
	must(w, admin.List(w.ctx, &list))
	var sum ledger.Amount
	for i := range list.Items {
		snapshot, err := ledgerstore.SnapshotOf(&list.Items[i].Spec)
		must(w, err)
		for _, g := range snapshot.Grants {
			for _, a := range g.Allowances {
				if a.ResourceType == w.resourceType() {
					sum += a.Amount
				}
			}
		}
	}
	return sum
}

// wantGranted waits until the ledgers give a sum, and checks that they never give more than a cap.
func (w *world) wantGranted(want, most ledger.Amount) {
	w.Helper()
	eventually(w, func() error {
		switch got := w.granted(); {
		case got > most:
			w.Fatalf("the ledgers give %d, the cap is %d", got, most)
		case got != want:
			return fmt.Errorf("the ledgers give %d, want %d", got, want)
		}
		return nil
	})
}

func TestCapsPerConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setCaps(10, 0)
	eventually(w, func() error { // every replica learns of a cap in its own time
		return w.wantTooMuch(11, "maxPerConsumer")
	})
	first := w.grant("first", 7)
	second := w.anyGrant("second", w.name, 5)
	w.mustCreate(second)
	w.waitActive(second, quotav1alpha1.ReasonCapReached)
	c := w.waitCondition(second, quotav1alpha1.ConditionActive, metav1.ConditionFalse)
	for _, part := range []string{
		w.resourceType(), "asks for 5 maps", "give 7 maps already", "is 10 maps", "Ask for at most 3 maps", "or raise maxPerConsumer",
	} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("the condition says %q, want it to say %q", c.Message, part)
		}
	}
	w.wantBucket(7, 0, 7, 0)

	w.mustDelete(first)
	w.waitActive(second, quotav1alpha1.ReasonGrantActive)
	w.wantBucket(5, 0, 5, 0)

	third := w.anyGrant("third", w.name, 6)
	w.mustCreate(third)
	w.waitActive(third, quotav1alpha1.ReasonCapReached)
	w.setCaps(11, 0)
	w.waitActive(third, quotav1alpha1.ReasonGrantActive)
	w.wantBucket(11, 0, 11, 0)

	w.setCaps(1, 0)
	change(t, third, func(g *quotav1alpha1.ResourceGrant) { g.Spec.Allowances[0].Buckets[0].Amount = 4 })
	w.wantBucket(9, 0, 9, 0)
	if active := w.waitCondition(third, quotav1alpha1.ConditionActive, metav1.ConditionTrue); active.Reason != quotav1alpha1.ReasonGrantActive {
		t.Errorf("a grant that gives less has the condition %+v", active)
	}

	w.setCaps(12, 0)
	eventually(w, func() error { // the webhook may not know the new cap yet; the grant alone fits under it
		must(w, admin.Get(w.ctx, client.ObjectKeyFromObject(third), third))
		third.Spec.Allowances[0].Buckets[0].Amount = 8
		return admin.Update(w.ctx, third)
	})
	w.waitActive(third, quotav1alpha1.ReasonCapReached)
	c = w.waitCondition(third, quotav1alpha1.ConditionActive, metav1.ConditionFalse)
	if !strings.Contains(c.Message, "keeps its amounts from before its change") {
		t.Errorf("the condition says %q", c.Message)
	}
	w.wantBucket(9, 0, 9, 0)
	w.mustDelete(second)
	w.waitActive(third, quotav1alpha1.ReasonGrantActive)
	w.wantBucket(8, 0, 8, 0)
}

// Concurrent grants to many consumers stay under the cap of all. Waiting grants get the freed capacity.
func TestCapsTotal(t *testing.T) {
	t.Parallel()
	const consumers, each, most = 12, 3, 20
	w := newWorld(t)
	w.setCaps(0, most)
	eventually(w, func() error {
		return w.wantTooMuch(most+1, "maxTotal")
	})
	var grants []*quotav1alpha1.ResourceGrant
	var group sync.WaitGroup
	for i := range consumers {
		name := fmt.Sprintf("%s-%d", w.name, i)
		grant := w.anyGrant(name, name, each)
		grants = append(grants, grant)
		w.cleanUp(grant)
		group.Go(func() {
			if err := admin.Create(w.ctx, grant); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.wantGranted(18, most)
	// active counts the grants that are active once each has a condition.
	active := func() (active, waiting []*quotav1alpha1.ResourceGrant) {
		for _, grant := range grants {
			eventually(w, func() error {
				if err := admin.Get(w.ctx, client.ObjectKeyFromObject(grant), grant); err != nil {
					return err
				}
				if grant.Status.ObservedGeneration != grant.Generation {
					return fmt.Errorf("grant %s has no result", grant.Name)
				}
				return nil
			})
			if grant.Status.Conditions[0].Status == metav1.ConditionTrue {
				active = append(active, grant)
				continue
			}
			waiting = append(waiting, grant)
			if c := grant.Status.Conditions[0]; c.Reason != quotav1alpha1.ReasonCapReached || !strings.Contains(c.Message, "maxTotal") {
				t.Errorf("grant %s has the condition %+v", grant.Name, c)
			}
		}
		return active, waiting
	}
	first, waiting := active()
	if len(first) != most/each {
		t.Errorf("%d grants of %d are active under a cap of %d", len(first), each, most)
	}

	for _, grant := range first[:2] {
		w.mustDelete(grant)
	}
	w.wantGranted(18, most)
	eventually(w, func() error {
		if got := w.countActive(waiting); got != 2 {
			return fmt.Errorf("%d grants became active after two were deleted", got)
		}
		return nil
	})
	w.wantGranted(18, most)

	w.setCaps(0, 1)
	w.setCaps(0, most+each)
	w.wantGranted(21, most+each)
	w.setCaps(0, 0)
	for _, grant := range append(waiting, first[2:]...) {
		w.waitActive(grant, quotav1alpha1.ReasonGrantActive)
	}
	w.wantGranted(30, 30)
}

func (w *world) countActive(grants []*quotav1alpha1.ResourceGrant) int {
	w.Helper()
	count := 0
	for _, grant := range grants {
		must(w, admin.Get(w.ctx, client.ObjectKeyFromObject(grant), grant))
		for _, c := range grant.Status.Conditions {
			if c.Type == quotav1alpha1.ConditionActive && c.Reason == quotav1alpha1.ReasonGrantActive {
				count++
			}
		}
	}
	return count
}
