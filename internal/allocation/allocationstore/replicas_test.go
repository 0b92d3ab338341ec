package allocationstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocation/allocationstore/storagetest"
)

// interruptedStorage is the storage of one process. It runs an action of another one once, before a read or write of a
// ledger.
type interruptedStorage struct {
	*storagetest.Memory
	reads, writes func()
}

func (s *interruptedStorage) ReadLedger(ctx context.Context, name string) (*quotav1alpha1.AllocationLedger, error) {
	once(&s.reads)
	return s.Memory.ReadLedger(ctx, name)
}

func (s *interruptedStorage) WriteLedger(ctx context.Context, ledger *quotav1alpha1.AllocationLedger) (string, error) {
	once(&s.writes)
	return s.Memory.WriteLedger(ctx, ledger)
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

// reconcile reconciles the allocation team at a generation.
func reconcile(t *testing.T, s *Store, generation int64) {
	t.Helper()
	ready := &Ready{UID: "u", Generation: generation, Condition: metav1.Condition{Status: metav1.ConditionTrue, Reason: "Enforced"}}
	if err := s.Reconcile(t.Context(), "team", ready, func(*allocation.State) {}); err != nil {
		t.Fatal(err)
	}
}

// isGiven shows this state of the cluster to all observers.
func isGiven(version string, used map[string]int64, clusters ...*cluster) {
	for _, c := range clusters {
		o := newCluster(version, used).live
		c.mu.Lock()
		c.live, c.seen = o, o
		c.mu.Unlock()
	}
}

// The observations of one process count for another one, in spite of anything between the writes of the one.
func TestObservationsCountForAllReplicas(t *testing.T) {
	for name, disturb := range map[string]func(m *interruptedStorage, other *Store){
		"nothing": func(*interruptedStorage, *Store) {},
		"another process writes between the status and the ledger": func(m *interruptedStorage, other *Store) {
			m.writes = func() { admit(t, other, request("between", 1)) }
		},
		"the ledger cannot be written": func(m *interruptedStorage, _ *Store) {
			lost := m.Written("team").Ledger + 1
			m.Fail = func(_ string, nth int) (error, bool) {
				if nth == lost {
					return errors.New("connection lost"), false
				}
				return nil, false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, c, seenByOther := newMemory(10), newCluster("5", nil), newCluster("5", nil)
			disturbed := &interruptedStorage{Memory: m}
			leader, other := New(t.Context(), disturbed, c), New(t.Context(), m, seenByOther)
			reconcile(t, leader, 1)
			admit(t, other, request("web", 1))
			ledger, _ := m.ReadLedger(t.Context(), "u")
			leader.NoteLedgerVersion("team", "u", ledger.ResourceVersion)
			isGiven("6", map[string]int64{"labelled": 8}, c)
			disturb(disturbed, other)
			reconcile(t, leader, 1)
			reconcile(t, leader, 1)
			if used := m.Allocation("team").Status.Allocated.Used[pods]; used.Value() < 9 {
				t.Errorf("the status tells that %s are taken", used.String())
			}
			isGiven("6", map[string]int64{"labelled": 8}, seenByOther)
			if outcome := admit(t, other, request("shop", 2)); outcome.IsPending {
				t.Error("2 more are given where 9 of 10 are taken")
			}
		})
	}
}

// Once the status has an observation of another cap, no replica decides by the former one.
func TestAnotherCapCountsForAllReplicas(t *testing.T) {
	m := newMemory(10)
	disturbed := &interruptedStorage{Memory: m}
	leader, other := New(t.Context(), disturbed, newCluster("5", nil)), New(t.Context(), m, newCluster("5", nil))
	reconcile(t, leader, 1)
	admit(t, other, request("web", 1))
	m.Change("team", func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Generation, a.Spec.Allocation.Hard = 2, amount(2) })
	leader.NoteVersion("team", m.Allocation("team").ResourceVersion)
	isObserved := func() bool { return m.Allocation("team").Status.ObservedGeneration == 2 }
	var check func()
	check = func() {
		if !isObserved() {
			disturbed.writes = check
		} else if outcome := admit(t, other, request("shop", 8)); outcome.IsPending {
			t.Error("8 are given of a cap of 2, which the status tells by now")
		}
	}
	disturbed.writes = check
	reconcile(t, leader, 2)
	if !isObserved() {
		t.Fatal("the status does not tell of another cap")
	}
	if outcome := admit(t, other, request("shop", 8)); outcome.IsPending {
		t.Error("8 are given of a cap of 2")
	}
}

// A ledger goes with the status from the time of its write or later, and with no earlier one.
func TestLedgerIsReadWithItsStatus(t *testing.T) {
	m, c, seenByOther := newMemory(10), newCluster("5", nil), newCluster("5", nil)
	leader := New(t.Context(), m, c)
	reconcile(t, leader, 1)
	change := request("web", 6)
	admit(t, leader, change)
	between := &interruptedStorage{Memory: m}
	other := New(t.Context(), between, seenByOther)
	between.reads = func() { // after the read of the status, without the change
		isGiven("7", map[string]int64{"web": 6, "labelled": 1}, c)
		c.mu.Lock()
		c.seen.Quotas = map[types.NamespacedName]allocation.QuotaVersion{{Namespace: "web", Name: "default"}: {UID: change.UID, ResourceVersion: "6"}}
		c.live = c.seen
		c.mu.Unlock()
		seenByOther.mu.Lock()
		seenByOther.live = c.live
		seenByOther.mu.Unlock()
		reconcile(t, leader, 1)
		if len(m.Pending("team")) > 0 {
			t.Fatal("the change is in the ledger still")
		}
	}
	if outcome := admit(t, other, request("shop", 4)); outcome.IsPending {
		t.Error("4 more are given where 7 of 10 are taken")
	}
}

// Admissions for a deleted and recreated allocation count for the existing one.
func TestAllocationIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, shut := newMemory(10), make(chan struct{})
		interrupted := &interruptedStorage{Memory: m}
		s := New(t.Context(), interrupted, newCluster("1", nil))
		admit(t, s, request("one", 1))
		interrupted.writes = func() { <-shut }
		admitted := make(chan Outcome, 2)
		for _, r := range []Request{request("two", 1), request("three", 8)} {
			go func() { admitted <- admit(t, s, r) }()
			synctest.Wait() // the write for the first is under way, and the second waits
		}
		m.Remove("team")
		m.Put(&quotav1alpha1.ResourceQuotaAllocation{
			ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "v", Generation: 1},
			Spec:       quotav1alpha1.ResourceQuotaAllocationSpec{Allocation: corev1.ResourceQuotaSpec{Hard: amount(10)}},
		})
		s.Forget("team")
		s.NoteVersion("team", m.Allocation("team").ResourceVersion)
		close(shut)
		<-admitted
		if second := <-admitted; !second.IsPending {
			t.Fatal("8 of 10 are denied")
		}
		if outcome := admit(t, s, request("four", 10)); outcome.IsPending {
			t.Error("10 more are admitted where 8 of 10 are taken")
		}
	})
}
