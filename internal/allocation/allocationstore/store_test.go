package allocationstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/allocation/allocationstore/storagetest"
)

const pods corev1.ResourceName = "pods"

func amount(n int64) corev1.ResourceList {
	return corev1.ResourceList{pods: *resource.NewQuantity(n, resource.DecimalSI)}
}

// newMemory keeps one allocation, called team.
func newMemory(limit int64) *storagetest.Memory {
	return storagetest.NewMemory(&quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "u", Generation: 1},
		Spec:       quotav1alpha1.ResourceQuotaAllocationSpec{Allocation: corev1.ResourceQuotaSpec{Hard: amount(limit)}},
	})
}

// cluster is the cluster and its observation, empty until the first refresh.
type cluster struct {
	mu         sync.Mutex
	live, seen allocation.Observation
	refreshed  int
}

func newCluster(version string, used map[string]int64) *cluster {
	o := allocation.Observation{Versions: quotav1alpha1.ObservedResourceQuotas{ResourceQuotas: version, Namespaces: version}, Used: map[string]corev1.ResourceList{}}
	for namespace, taken := range used {
		o.Used[namespace] = amount(taken)
	}
	seen := o
	seen.Versions, seen.Used = quotav1alpha1.ObservedResourceQuotas{ResourceQuotas: "1", Namespaces: "1"}, nil
	return &cluster{live: o, seen: seen}
}

func (c *cluster) WaitForSync(context.Context) error { return nil }

func (c *cluster) Refresh(context.Context, time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = c.live
	c.refreshed++
	return nil
}

func (c *cluster) Observe(labels.Selector, allocation.Scopes, []allocation.QuotaChange) allocation.Observation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// see makes this state the observed one.
func (c *cluster) see(version string, used map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = newCluster(version, used).live
}

var ids struct {
	sync.Mutex
	last int
}

func request(namespace string, to int64) Request {
	ids.Lock()
	defer ids.Unlock()
	ids.last++
	id := fmt.Sprint(ids.last)
	return Request{QuotaChange: allocation.QuotaChange{ID: id, Namespace: namespace, Name: "default", UID: types.UID(id), NamespaceVersion: "1", Hard: amount(to), AdmittedAt: metav1.Now()}}
}

func admit(t *testing.T, s *Store, r Request) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	outcome, err := s.Admit(ctx, "team", r)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// Amounts given before the first decision are in no ledger, and perhaps not in the observation either.
func TestFirstDecisionReadsTheCluster(t *testing.T) {
	m, c := newMemory(10), newCluster("7", map[string]int64{"web": 8})
	s := New(t.Context(), m, c)
	if outcome := admit(t, s, request("shop", 3)); len(outcome.Shortages) == 0 {
		t.Error("3 are given where 8 of 10 are taken")
	}
	if outcome := admit(t, s, request("shop", 2)); !outcome.IsPending {
		t.Errorf("2 are denied: %v", outcome.Shortages)
	}
	m.Change("team", func(a *quotav1alpha1.ResourceQuotaAllocation) { // the cap is for more than before
		a.Generation, a.Spec.Allocation.Hard = 2, corev1.ResourceList{pods: resource.MustParse("10"), "count/secrets": resource.MustParse("1")}
	})
	c.live.Used = map[string]corev1.ResourceList{"old": {"count/secrets": resource.MustParse("1")}}
	r := request("shop", 0)
	r.Hard = corev1.ResourceList{"count/secrets": resource.MustParse("1")}
	if outcome := admit(t, s, r); len(outcome.Shortages) == 0 {
		t.Error("what was given before the cap named it is not counted")
	}
}

// A replica with an observation older than the ledger lists the cluster.
func TestObservationBehindTheLedger(t *testing.T) {
	m, c := newMemory(10), newCluster("900", nil)
	m.Change("team", func(a *quotav1alpha1.ResourceQuotaAllocation) {
		a.Status = quotav1alpha1.ResourceQuotaAllocationStatus{
			ObservedGeneration: 1, Observed: quotav1alpha1.ObservedResourceQuotas{ResourceQuotas: "1000", Namespaces: "1000"},
			UsedByProject: []quotav1alpha1.NamespacedResourceList{{Namespace: "gone", Used: amount(10)}},
		}
	})
	m.PutPending("team")
	s := New(t.Context(), m, c)
	if outcome := admit(t, s, request("shop", 10)); !outcome.IsPending {
		t.Errorf("it is denied for a deleted ResourceQuota: %v", outcome.Shortages)
	}
	m.Change("team", func(a *quotav1alpha1.ResourceQuotaAllocation) { a.Generation = 2 })
	if outcome := admit(t, s, request("shop", 11)); len(outcome.Shortages) == 0 {
		t.Error("11 of 10 are given")
	}
}

func TestWritesThatFail(t *testing.T) {
	lost := errors.New("connection lost")
	for name, tt := range map[string]struct {
		reason string
		fail   func(string, int) (error, bool)
	}{
		"lost":    {"the write was not made", func(_ string, n int) (error, bool) { return map[bool]error{true: lost}[n == 1], false }},
		"unknown": {"the write was made, and its answer was lost", func(_ string, n int) (error, bool) { return map[bool]error{true: lost}[n == 1], true }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(10)
			m.Fail = tt.fail
			s := New(t.Context(), m, newCluster("1", nil))
			r := request("web", 10)
			if outcome := admit(t, s, r); !outcome.IsPending {
				t.Errorf("%s: %v", tt.reason, outcome)
			}
			if n := len(m.Pending("team")); n != 1 {
				t.Errorf("%s: it is booked %d times", tt.reason, n)
			}
			if err := s.Cancel(t.Context(), "team", r.ID); err != nil || len(m.Pending("team")) != 0 {
				t.Errorf("%s: it cannot be canceled: %v", tt.reason, err)
			}
		})
	}
	m := newMemory(10)
	m.Fail = func(string, int) (error, bool) { return lost, false }
	if _, err := New(t.Context(), m, newCluster("1", nil)).Admit(t.Context(), "team", request("web", 1)); !errors.Is(err, lost) || m.Written("team").Ledger != attemptsMax {
		t.Errorf("after %d tries: %v", m.Written("team").Ledger, err)
	}
}

// Two processes, each with many callers at once, hand out the cap and no more, with far fewer writes than callers.
func TestTwoStores(t *testing.T) {
	const limit, callers = 100, 400
	m, c := newMemory(limit), newCluster("1", nil)
	stores := []*Store{New(t.Context(), m, c), New(t.Context(), m, c)}
	var group errgroup.Group
	var mu sync.Mutex
	pending := 0
	for i := range callers {
		group.Go(func() error {
			outcome, err := stores[i%2].Admit(t.Context(), "team", request(fmt.Sprint("project-", i), 1))
			if outcome.IsPending {
				mu.Lock()
				pending++
				mu.Unlock()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if pending != limit || len(m.Pending("team")) != limit {
		t.Errorf("%d of %d are given, and %d are in the ledger", pending, limit, len(m.Pending("team")))
	}
	t.Logf("%d writes for %d callers", m.Written("team").Ledger, callers)
}

func TestDeletedAllocation(t *testing.T) {
	m := newMemory(10)
	s := New(t.Context(), m, newCluster("1", nil))
	m.Remove("team")
	if outcome := admit(t, s, request("web", 100)); outcome.IsPending || len(outcome.Shortages) > 0 {
		t.Errorf("an allocation that is gone says %v", outcome)
	}
	if err := s.View(t.Context(), "team", func(*allocation.State) {}); !errors.Is(err, ErrGone) {
		t.Errorf("got %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committers["team"] != nil {
		t.Error("it is remembered for ever")
	}
}

func TestOneNamespaceDoesNotBlockOthers(t *testing.T) {
	s := New(t.Context(), newMemory(10000), newCluster("1", nil))
	for range pendingMaxPerNamespace {
		admit(t, s, request("web", 1))
	}
	if _, err := s.Admit(t.Context(), "team", request("web", 1)); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want one namespace to have so many in flight and no more", err)
	}
	if outcome := admit(t, s, request("shop", 1)); !outcome.IsPending {
		t.Error("others have to wait for it")
	}
}

// If requesters only make admitted changes, the ledger has them until its next write, and the status may wait.
func TestReconcileWritesOnlyWhatMatters(t *testing.T) {
	m, c := newMemory(10), newCluster("5", map[string]int64{"web": 4})
	s := New(t.Context(), m, c)
	ready := &Ready{UID: "u", Generation: 1, Condition: metav1.Condition{Status: metav1.ConditionTrue, Reason: "Enforced"}}
	reconcile := func() (isCurrent bool) {
		t.Helper()
		if err := s.Reconcile(t.Context(), "team", ready, func(b *allocation.State) { isCurrent = b.IsStatusCurrent() }); err != nil {
			t.Fatal(err)
		}
		return isCurrent
	}
	reconcile()
	before := m.Written("team")
	// wrote reports whether there were so many writes since the beginning.
	wrote := func(status, ledger int) bool {
		return m.Written("team") == storagetest.Writes{Status: before.Status + status, Ledger: before.Ledger + ledger}
	}
	if !reconcile() || !wrote(0, 0) {
		t.Error("it is written though nothing changed")
	}
	admit(t, s, request("shop", 3))
	if !wrote(0, 1) {
		t.Error("a change waits for more than the ledger")
	}
	c.see("6", map[string]int64{"web": 4, "shop": 3})
	if reconcile() || !wrote(0, 1) {
		t.Error("it is written at once though each takes as much as before")
	}
	c.see("7", map[string]int64{"web": 4, "shop": 4})
	if !reconcile() || !wrote(1, 2) {
		t.Error("it is not written though more is taken than is known")
	}
	c.see("8", map[string]int64{"web": 4, "shop": 3})
	reconcile()
	if used := m.Allocation("team").Status.Allocated.Used[pods]; used.Value() != 7 {
		t.Errorf("%s are taken, and what was given back is not told", used.String())
	}
	other := &Ready{UID: "another", Generation: 1, Condition: metav1.Condition{Status: metav1.ConditionFalse, Reason: "WebhooksPending"}}
	if err := s.Reconcile(t.Context(), "team", other, func(*allocation.State) {}); err != nil || m.Allocation("team").Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("what is said of another allocation of that name counts for this one: %v", m.Allocation("team").Status.Conditions)
	}
}
