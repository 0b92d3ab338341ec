package enforce

import (
	"context"
	"fmt"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

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
