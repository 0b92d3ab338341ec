package enforce

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A denial names counted objects and claims in one list. An object with both is there once, and a claim without an
// object stands for itself.
func TestLargestHolders(t *testing.T) {
	acme, maps := organization("acme"), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	claim := func(name string, amount int64, of quotav1alpha1.UnversionedObjectReference) *quotav1alpha1.ResourceClaim {
		c := &quotav1alpha1.ResourceClaim{
			TypeMeta:   typeOf("ResourceClaim"),
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), ResourceVersion: "1"},
			Spec: quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: acme, ResourceRef: of, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "maps", Amount: amount}},
			},
		}
		c.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
		return c
	}
	claims := claimcache.New()
	go claims.Run(t.Context(), claimstest.New(
		claim("of-a", 3, quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Namespace: "n", Name: "a"}), claim("direct", 4, quotav1alpha1.UnversionedObjectReference{}),
	).Client(t).REST())
	if err := claims.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := inventory.New()
	counted := all.Add(inventory.NameOf(maps), types.NamespacedName.String)
	object := func(name string, amount ledger.Amount) inventory.Object {
		return inventory.Object{
			NamespacedName: types.NamespacedName{Namespace: "n", Name: name}, UID: types.UID(name), Version: 1,
			Demands: []inventory.Demand{{Policy: "p", Consumer: acme, Charges: []ledger.Charge{{ResourceType: "maps", Amount: amount}}}},
		}
	}
	counted.Replace(ledger.Basis{Objects: 1}, slices.Values([]inventory.Object{object("a", 2), object("b", 1), object("c", 1)}))
	h := New(Dependencies{
		Store:  ledgerstore.New(t.Context(), storagetest.New().Connect(func(context.Context, storagetest.Call) storagetest.Fault { return storagetest.None })),
		Claims: claims, Inventory: all,
	})

	got := h.largest(acme, "maps", "n")
	want := []message.Holder{{Name: "ConfigMap n/a", Amount: 5}, {Name: "ResourceClaim n/direct", Amount: 4}, {Name: "ConfigMap n/b", Amount: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the largest holders (-want +got):\n%s", diff)
	}
	if elsewhere := h.largest(acme, "maps", "elsewhere"); len(elsewhere) > 0 {
		t.Errorf("in another namespace are %v", elsewhere)
	}
}

// BenchmarkHolders is what the largest holders cost a number of denials at once, of a consumer with 10,000 claims. It
// counts the time for all of them.
func BenchmarkHolders(b *testing.B) {
	acme := organization("acme")
	var stored []*quotav1alpha1.ResourceClaim
	for n := range 10_000 {
		claim := &quotav1alpha1.ResourceClaim{
			TypeMeta:   typeOf("ResourceClaim"),
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("claim-", n), UID: types.UID(fmt.Sprint(n)), ResourceVersion: "1"},
			Spec: quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: acme, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "maps", Amount: int64(n)}},
			},
		}
		claim.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
		stored = append(stored, claim)
	}
	claims := claimcache.New()
	go claims.Run(b.Context(), claimstest.New(stored...).Client(b).REST())
	if err := claims.WaitForSync(b.Context()); err != nil {
		b.Fatal(err)
	}
	store := ledgerstore.New(b.Context(), storagetest.New().Connect(func(context.Context, storagetest.Call) storagetest.Fault { return storagetest.None }))
	request := &admissionv1.AdmissionRequest{Namespace: "n"}

	for _, denials := range []int{1, 64} {
		b.Run(fmt.Sprint(denials), func(b *testing.B) {
			for b.Loop() {
				h := New(Dependencies{Store: store, Claims: claims})
				var group sync.WaitGroup
				for range denials {
					group.Go(func() {
						if holders := h.holders(b.Context(), request, acme, "maps"); len(holders) != holdersMax || holders[0].Amount != 9_999 {
							b.Errorf("the largest holders are %v", holders)
						}
					})
				}
				group.Wait()
			}
		})
	}
}
