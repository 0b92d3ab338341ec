package claim

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore/storagetest"
)

// A process dies while it resizes a claim. Whatever becomes of the claim then, another one leaves the books with what
// it holds.
func TestResizeLeftHalfDone(t *testing.T) {
	const before, after = 1, 4
	tests := map[string]struct {
		reason string
		// isChanged tells that the claim says what it is to hold when the process dies.
		isChanged bool
		then      func(*quotav1alpha1.ResourceClaim)
		// want is what is used in the end; nothing if the claim is released.
		want ledger.Amount
	}{
		"before the claim is changed": {"the other process goes on", false, func(*quotav1alpha1.ResourceClaim) {}, after},
		"after the claim is changed":  {"the books follow it", true, func(*quotav1alpha1.ResourceClaim) {}, after},
		"and nobody wants it": {"the books stay", false, func(c *quotav1alpha1.ResourceClaim) {
			delete(c.Annotations, quotav1alpha1.AnnotationResize)
		}, before},
		"and less is wanted": {"the books follow the last wish", false, func(c *quotav1alpha1.ResourceClaim) {
			c.Annotations[quotav1alpha1.AnnotationResize] = `[{"resourceType":"t","amount":2}]`
		}, 2},
		"and it is released unchanged": {"what it held is given back", false, released, 0},
		"and it is released changed":   {"what it held is given back, which is what the books have", true, released, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, client := newAPI(t)
			memory, registrations := storagetest.New(), catalog.New()
			register(registrations)
			first := process(t, client, registrations, memory.Connect(nil))
			grant(t, first.Store)
			name := types.NamespacedName{Namespace: "ns", Name: "c"}
			if granted, err := first.decide(t.Context(), name, consumer); err != nil || !granted {
				t.Fatalf("granted %v, %v", granted, err)
			}
			a.change(func(c *quotav1alpha1.ResourceClaim) {
				c.Annotations = map[string]string{quotav1alpha1.AnnotationResize: `[{"resourceType":"t","amount":4}]`}
			})
			a.isRefused = true
			if err := first.resize(t.Context(), name, consumer); err == nil {
				t.Fatal("the claim cannot be changed, and that is no error")
			}
			a.isRefused = false
			if books := memory.Books(consumer); len(books.Reservations) != 1 || books.Used[0].Amount != before {
				t.Fatalf("the books have %+v in use and %+v in flight", books.Used, books.Reservations)
			}
			if tt.isChanged {
				a.change(func(c *quotav1alpha1.ResourceClaim) { c.Spec.Requests[0].Amount = after })
			}
			a.change(tt.then)

			second := process(t, client, registrations, memory.Connect(nil))
			if err := second.Store.View(t.Context(), consumer, func(*ledger.Ledger) {}); err != nil {
				t.Fatal(err)
			}
			for _, reservation := range second.Store.Reservations() {
				if err := second.finish(t.Context(), reservation); err != nil {
					t.Fatal(err)
				}
			}
			known := claimcache.Compact(&a.claim)
			switch {
			case known.Deleting:
				if err := second.release(t.Context(), known); err != nil {
					t.Fatal(err)
				}
			case known.Resizing:
				if err := second.resize(t.Context(), name, consumer); err != nil {
					t.Fatal(err)
				}
			}
			books := memory.Books(consumer)
			var used ledger.Amount
			for _, u := range books.Used {
				used += u.Amount
			}
			if len(books.Reservations) != 0 || used != tt.want {
				t.Errorf("%s: the books have %+v in use and %+v in flight, want %d in use", tt.reason, books.Used, books.Reservations, tt.want)
			}
			if !known.Deleting && a.claim.Spec.Requests[0].Amount != int64(tt.want) {
				t.Errorf("%s: the claim says that it holds %d", tt.reason, a.claim.Spec.Requests[0].Amount)
			}
		})
	}
}

func released(c *quotav1alpha1.ResourceClaim) {
	now := metav1.Now()
	c.DeletionTimestamp = &now
}

// Two processes resize one claim at once, to what was asked for before and after.
func TestTwoProcessesResizeAClaim(t *testing.T) {
	a, client := newAPI(t)
	memory, registrations := storagetest.New(), catalog.New()
	register(registrations)
	first := process(t, client, registrations, memory.Connect(nil))
	grant(t, first.Store)
	name := types.NamespacedName{Namespace: "ns", Name: "c"}
	if granted, err := first.decide(t.Context(), name, consumer); err != nil || !granted {
		t.Fatalf("granted %v, %v", granted, err)
	}
	want := func(amount string) {
		a.change(func(c *quotav1alpha1.ResourceClaim) {
			c.Annotations = map[string]string{quotav1alpha1.AnnotationResize: `[{"resourceType":"t","amount":` + amount + `}]`}
		})
	}
	second := process(t, client, registrations, memory.Connect(nil))
	want("4")
	a.onStatus = func() { // the first has changed the claim, and the books not yet
		a.onStatus = nil
		want("6")
		if err := second.resize(t.Context(), name, consumer); err != nil {
			t.Error(err)
		}
	}
	if err := first.resize(t.Context(), name, consumer); err == nil {
		t.Error("the first process wrote a status over that of the second")
	}
	books := memory.Books(consumer)
	if len(books.Reservations) != 0 || len(books.Used) != 1 || books.Used[0].Amount != 6 || books.Used[0].Claims != 1 || a.claim.Spec.Requests[0].Amount != 6 {
		t.Errorf("the claim holds %+v, the books have %+v in use and %+v in flight", a.claim.Spec.Requests, books.Used, books.Reservations)
	}
}

// change changes the claim as somebody else would.
func (a *api) change(f func(*quotav1alpha1.ResourceClaim)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.claim)
	a.rv++
	a.claim.ResourceVersion = fmt.Sprint(a.rv)
}
