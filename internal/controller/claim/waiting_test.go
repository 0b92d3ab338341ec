package claim

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// line makes claims that wait, the first for the longest time.
func line(amounts ...int64) []*quotav1alpha1.ResourceClaim {
	waiting := make([]*quotav1alpha1.ResourceClaim, 0, len(amounts))
	for i, amount := range amounts {
		name := fmt.Sprintf("c-%05d", i)
		waiting = append(waiting, &quotav1alpha1.ResourceClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Generation: 1,
				CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)), Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease},
			},
			Spec: quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: consumer,
				ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: name, Namespace: "ns"},
				Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: amount}},
			},
			Status: quotav1alpha1.ResourceClaimStatus{Conditions: []metav1.Condition{
				{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonQuotaExceeded},
			}},
		})
	}
	return waiting
}

// repeated returns n times the amount.
func repeated(n int, amount int64) []int64 {
	amounts := make([]int64, n)
	for i := range amounts {
		amounts[i] = amount
	}
	return amounts
}

// inLine returns a controller that knows waiting claims, and counts the calls of its storage.
func inLine(t testing.TB, waiting ...*quotav1alpha1.ResourceClaim) (c *Controller, server *claimstest.Server, calls *atomic.Int64) {
	server = claimstest.New(waiting...)
	registrations := catalog.New()
	register(registrations)
	calls = new(atomic.Int64)
	client := server.Client(t)
	c = process(t, server, client, registrations, storagetest.New().Connect(func(context.Context, storagetest.Call) storagetest.Fault {
		calls.Add(1)
		return storagetest.None
	}))
	go c.Claims.Run(t.Context(), client.REST())
	if err := c.Claims.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if waits := len(c.waitingOf(consumer)); waits != len(waiting) {
		t.Fatalf("%d claims wait, want %d", waits, len(waiting))
	}
	return c, server, calls
}

// Smaller claims behind many that are too large get what there is, and the oldest of them first.
func TestSmallerClaimsBehindLargeOnes(t *testing.T) {
	const large, small = 3 * retryBatchMax, 12
	c, server, _ := inLine(t, line(append(repeated(large, 20), repeated(small, 1)...)...)...)
	grant(t, c.Store) // 10
	if err := c.retryWaiting(t.Context(), consumer); err != nil {
		t.Fatal(err)
	}
	for i := range large + small {
		isGranted := claimcache.StateOf(server.Get(fmt.Sprintf("c-%05d", i))) == claimcache.Granted
		if want := large <= i && i < large+10; isGranted != want {
			t.Errorf("claim %d: granted is %v, want %v", i, isGranted, want)
		}
	}
}

// BenchmarkRetryWaiting is what a little new quota costs while many claims wait for more than there is. It reports the
// calls of the storage of ledgers.
func BenchmarkRetryWaiting(b *testing.B) {
	for _, waiting := range []int{100, 10_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			c, _, calls := inLine(b, line(repeated(waiting, 20)...)...)
			grant(b, c.Store)
			for b.Loop() {
				if err := c.retryWaiting(b.Context(), consumer); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(calls.Load())/float64(b.N), "calls/op")
		})
	}
}
