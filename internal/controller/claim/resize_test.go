package claim

import (
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A process dies during the resize of a claim. Another process goes on, and the ledger has the claim's charges,
// regardless of the claim's later fate.
func TestResizeLeftHalfDone(t *testing.T) {
	const before, after = 1, 4
	tests := map[string]struct {
		reason string
		// isChanged gives the claim its new amounts before the process dies.
		isChanged bool
		then      func(*quotav1alpha1.ResourceClaim)
		// want is the usage in the end; zero after a release of the claim.
		want ledger.Amount
	}{
		"before the claim is changed": {"the other process goes on", false, func(*quotav1alpha1.ResourceClaim) {}, after},
		"after the claim is changed":  {"the status follows it", true, func(*quotav1alpha1.ResourceClaim) {}, after},
		"and nobody wants it": {"the claim stays", false, func(c *quotav1alpha1.ResourceClaim) {
			delete(c.Annotations, quotav1alpha1.AnnotationResize)
		}, before},
		"and less is wanted": {"the claim follows the last wish", false, func(c *quotav1alpha1.ResourceClaim) {
			c.Annotations[quotav1alpha1.AnnotationResize] = `[{"resourceType":"t","amount":2}]`
		}, 2},
		"and it is released unchanged": {"what it held is given back", false, released, 0},
		"and it is released changed":   {"what it held is given back", true, released, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, memory, first := granted(t, "4")
			a.rejectPatches()
			if err := first.resize(t.Context(), task{theClaim, consumer}); err == nil {
				t.Fatal("the claim cannot be changed, and that is no error")
			}
			a.Intercept(nil)
			if stored := memory.Snapshot(consumer); len(stored.Reservations) != 1 || stored.Reservations[0].Charges[0].Amount != after-before {
				t.Fatalf("the ledger has %+v in flight", stored.Reservations)
			}
			if tt.isChanged {
				a.change(func(c *quotav1alpha1.ResourceClaim) {
					c.Spec.Requests[0].Amount = after
					c.Generation++
				})
			}
			a.change(tt.then)

			second := process(t, a.Server, first.Client, first.Catalog, memory.Connect(nil))
			known := claimcache.Compact(a.claim())
			switch {
			case known.Deleting:
				if err := second.release(t.Context(), known); err != nil {
					t.Fatal(err)
				}
			case known.Resizing:
				if err := second.resize(t.Context(), task{theClaim, consumer}); err != nil {
					t.Fatal(err)
				}
			}

			if tt.want == 0 {
				wantLedger(t, second, 0, 0)
				return
			}
			wantLedger(t, second, tt.want, 1)
			if got := a.claim().Status.Allocations[0].AllocatedAmount; got != int64(tt.want) {
				t.Errorf("%s: the claim says that it holds %d", tt.reason, got)
			}
		})
	}
}

func released(c *quotav1alpha1.ResourceClaim) {
	now := metav1.Now()
	c.DeletionTimestamp = &now
}

// granted is an API server with a granted claim of 1, to be resized to the amount, and a process; the limit is 10.
func granted(t *testing.T, amount string) (api, *storagetest.Memory, *Controller) {
	t.Helper()
	a, memory, c := undecided(t)
	if granted, err := c.decide(t.Context(), task{theClaim, consumer}); err != nil || !granted {
		t.Fatalf("granted %v, %v", granted, err)
	}
	a.want(amount)
	return a, memory, c
}

var theClaim = types.NamespacedName{Namespace: "ns", Name: "c"}

// want requests an amount instead of the claim's current one.
func (a api) want(amount string) {
	a.change(func(c *quotav1alpha1.ResourceClaim) {
		c.Annotations = map[string]string{quotav1alpha1.AnnotationResize: `[{"resourceType":"t","amount":` + amount + `}]`}
	})
}

// wantLedger checks the used amount and the number of claims, with nothing in flight.
func wantLedger(t *testing.T, c *Controller, amount ledger.Amount, claims int64) {
	t.Helper()
	err := c.Store.View(t.Context(), consumer, func(l *ledger.Ledger) {
		a := l.Account("t")
		if l.ReservationCount() != 0 || a.Used != amount || a.Claims != claims {
			t.Errorf("the ledger has %+v, with %d reservations; want %d used by %d claims", a, l.ReservationCount(), amount, claims)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// The ledger does not keep an earlier admitted amount for an outdated request while the new amount has to wait.
func TestResizeToSomethingElse(t *testing.T) {
	a, _, c := granted(t, "4")
	a.rejectPatches()
	if err := c.resize(t.Context(), task{theClaim, consumer}); err == nil {
		t.Fatal("the claim cannot be changed, and that is no error")
	}
	a.Intercept(nil)
	a.want("50")
	if err := c.resize(t.Context(), task{theClaim, consumer}); err != nil {
		t.Fatal(err)
	}
	wantLedger(t, c, 1, 1)
	said := apimeta.FindStatusCondition(a.claim().Status.Conditions, quotav1alpha1.ConditionResizePending)
	if said == nil || said.Reason != quotav1alpha1.ReasonQuotaExceeded || !strings.Contains(said.Message, "requested: 49 ") {
		t.Errorf("the claim says %+v", said)
	}
}

// The claim changes before the status of its resize is written. The status still says what the claim holds, also if the
// change is another request that cannot be granted.
func TestResizeWhoseStatusIsOvertaken(t *testing.T) {
	wish := func(requests string) func(*quotav1alpha1.ResourceClaim) {
		return func(claim *quotav1alpha1.ResourceClaim) {
			claim.Annotations = map[string]string{quotav1alpha1.AnnotationResize: requests}
		}
	}
	for name, change := range map[string]func(*quotav1alpha1.ResourceClaim){
		"another label":                func(claim *quotav1alpha1.ResourceClaim) { claim.Labels = map[string]string{"changed": "true"} },
		"a request without room":       wish(`[{"resourceType":"t","amount":50}]`),
		"a request of an unknown type": wish(`[{"resourceType":"unknown","amount":2}]`),
	} {
		t.Run(name, func(t *testing.T) {
			a, _, c := granted(t, "4")
			a.onStatus(func() { a.change(change) })
			if err := c.resize(t.Context(), task{theClaim, consumer}); err == nil {
				t.Fatal("the status was written over a change")
			}
			if !claimcache.Compact(a.claim()).Resizing {
				t.Error("nothing is left to be done")
			}

			if err := c.resize(t.Context(), task{theClaim, consumer}); err != nil {
				t.Fatal(err)
			}
			wantLedger(t, c, 4, 1)
			if got := a.claim().Status.Allocations[0].AllocatedAmount; got != 4 {
				t.Errorf("the status says %d", got)
			}
		})
	}
}

// The controller's own status write of a claim waiting for a resize does not cause another decision.
func TestWaitingResizeIsQuiet(t *testing.T) {
	a, _, c := granted(t, "50")
	before := claimcache.Compact(a.claim())
	c.changed(nil, before)
	if c.decisions.Len() != 1 {
		t.Errorf("%d claims are to be decided, want the one that is news", c.decisions.Len())
	}
	first, _ := c.decisions.Get()
	if first.NamespacedName != theClaim {
		t.Errorf("got %s", first)
	}
	c.decisions.Done(first)
	if err := c.resize(t.Context(), task{theClaim, consumer}); err != nil {
		t.Fatal(err)
	}
	after := claimcache.Compact(a.claim())
	c.changed(before, after)
	if c.decisions.Len() != 0 {
		t.Error("its own status has it decided again")
	}
	a.want("60")
	c.changed(after, claimcache.Compact(a.claim()))
	if c.decisions.Len() != 1 {
		t.Error("another amount is not decided")
	}
}

// Two processes resize one claim at once, to the earlier and to the later requested amount.
func TestTwoProcessesResizeAClaim(t *testing.T) {
	a, memory, first := granted(t, "4")
	second := process(t, a.Server, first.Client, first.Catalog, memory.Connect(nil))
	a.onStatus(func() { // the first has changed the claim, but not yet the ledger
		a.want("6")
		if err := second.resize(t.Context(), task{theClaim, consumer}); err != nil {
			t.Error(err)
		}
	})
	if err := first.resize(t.Context(), task{theClaim, consumer}); err == nil {
		t.Error("the first process wrote a status over that of the second")
	}
	wantLedger(t, second, 6, 1)
	if got := a.claim().Spec.Requests[0].Amount; got != 6 {
		t.Errorf("the claim holds %d", got)
	}
}
