package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// resizeClaim requests a new amount of a claim. nil withdraws the request.
func (w *world) resizeClaim(claim *quotav1alpha1.ResourceClaim, value any) error {
	annotations := map[string]any{quotav1alpha1.AnnotationResize: value}
	if amount, ok := value.(int); ok {
		annotations[quotav1alpha1.AnnotationResize] = fmt.Sprintf(`[{"resourceType":%q,"amount":%d}]`, w.resourceType(), amount)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	return admin.Patch(w.ctx, claim.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}

// waitHolds waits until a granted claim holds an amount. It must also have the condition ResizePending with that
// reason, or none if the reason is empty. waitHolds returns the condition's message.
func (w *world) waitHolds(claim *quotav1alpha1.ResourceClaim, amount int64, reason string) (message string) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		var said string
		if c := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionResizePending); c != nil {
			said, message = c.Reason, c.Message
		}
		isGranted := apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
		if !isGranted || claim.Spec.Requests[0].Amount != amount || claim.Status.Allocations[0].AllocatedAmount != amount || said != reason {
			return fmt.Errorf("the claim requests %+v and says %+v, want %d and %q", claim.Spec.Requests, claim.Status, amount, reason)
		}
		return nil
	})
	return message
}

// TestResize changes the amounts of claims, at the limit and below it.
func TestResize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 10)
	claim, other := w.claim("a", 4), w.claim("b", 6)
	w.mustCreate(claim)
	w.mustCreate(other)
	w.waitHolds(claim, 4, "")
	w.waitHolds(other, 6, "")

	must(t, w.resizeClaim(claim, 7)) // there is no room
	message := w.waitHolds(claim, 4, quotav1alpha1.ReasonQuotaExceeded)
	if want := "requested: 3 maps, used: 10, limited: 10"; !strings.Contains(message, want) || !strings.Contains(message, "in addition to the present amounts of the claim") {
		t.Errorf("it says %q, want %q and that nothing is lost", message, want)
	}
	must(t, w.resizeClaim(claim, 3)) // a decrease needs none
	w.waitHolds(claim, 3, "")
	w.wantBucket(10, 9, 1, 2)
	must(t, w.resizeClaim(claim, 5))
	w.waitHolds(claim, 3, quotav1alpha1.ReasonQuotaExceeded)
	must(t, w.resizeClaim(other, 5)) // makes room for it
	w.waitHolds(other, 5, "")
	w.waitHolds(claim, 5, "")
	w.wantBucket(10, 10, 0, 2)

	must(t, w.resizeClaim(claim, 8))
	w.waitHolds(claim, 5, quotav1alpha1.ReasonQuotaExceeded)
	must(t, w.resizeClaim(claim, nil)) // nobody wants it any longer
	w.waitHolds(claim, 5, "")
	must(t, w.resizeClaim(claim, 8))
	w.waitHolds(claim, 5, quotav1alpha1.ReasonQuotaExceeded)
	w.update(grant, func() { grant.Spec.Allowances[0].Buckets[0].Amount = 13 })
	w.waitHolds(claim, 8, "")
	w.wantBucket(13, 13, 0, 2)

	must(t, w.resizeClaim(claim, `[{"resourceType":"unknown.example.com/things","amount":1}]`))
	if message := w.waitHolds(claim, 8, quotav1alpha1.ReasonValidationFailed); !strings.Contains(message, "unknown.example.com/things") {
		t.Errorf("%q does not say what is wrong", message)
	}
	must(t, w.resizeClaim(claim, 9))
	w.waitHolds(claim, 8, quotav1alpha1.ReasonQuotaExceeded)
	w.mustDelete(claim)
	w.wantBucket(13, 5, 8, 1)
	eventually(w, func() error { return w.wantObserved(5) })
}

// TestResizeThatCannotBe asks for amounts that no claim can hold.
func TestResizeThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 5)
	claim := w.claim("a", 4)
	w.mustCreate(claim)
	w.waitHolds(claim, 4, "")
	w.mustCreate(w.configMap("b"))
	eventually(w, func() error {
		if n := len(w.claims()); n != 2 {
			return fmt.Errorf("there are %d claims", n)
		}
		return nil
	})
	ofPolicy := w.claims()[0]
	if ofPolicy.Name == claim.Name {
		ofPolicy = w.claims()[1]
	}
	for name, tt := range map[string]struct {
		claim *quotav1alpha1.ResourceClaim
		value any
		want  string
	}{
		"no JSON":        {claim, "7", "must be JSON in the form of spec.requests"},
		"unknown field":  {claim, `[{"resourceType":"a","amont":1}]`, `unknown field "[0].amont"`},
		"nothing":        {claim, 0, "[0].amount: Invalid value: 0: must be a positive integer"},
		"empty":          {claim, "[]", "must have at least 1"},
		"of a policy":    {&ofPolicy, 2, "the amounts of a policy's claim follow its object"},
		"the same twice": {claim, `[{"resourceType":"a","amount":1},{"resourceType":"a","amount":1}]`, "may be requested once"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := w.resizeClaim(tt.claim, tt.value); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to be invalid: %s", err, tt.want)
			}
		})
	}
	w.waitHolds(claim, 4, "")
}

// TestManyResizesAtOnce resizes claims up and down all the time. They never hold more than the limit, and in the end
// the ledger agrees with them.
func TestManyResizesAtOnce(t *testing.T) {
	t.Parallel()
	const limit, claims, times = 20, 8, 40
	w := newWorld(t)
	w.grant("base", limit)
	var group sync.WaitGroup
	done := make(chan struct{})
	checked := make(chan int, 1)
	go func() {
		lists := 0
		defer func() { checked <- lists }()
		for {
			held := int64(0)
			for _, claim := range w.claims() {
				// A claim in deletion may have returned its amount, and still exist.
				if claim.DeletionTimestamp == nil && apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) {
					held += claim.Spec.Requests[0].Amount
				}
			}
			if lists++; held > limit {
				t.Errorf("claims hold %d of %d", held, limit)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	for i := range claims {
		claim := w.claim(fmt.Sprint("c", i), 1)
		w.mustCreate(claim)
		group.Go(func() {
			for range times {
				if err := w.resizeClaim(claim, 1+rand.IntN(6)); err != nil {
					t.Error(err)
				}
			}
			if i%2 == 0 {
				if err := w.resizeClaim(claim, 2); err != nil {
					t.Error(err)
				}
			} else if err := admin.Delete(w.ctx, claim); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.wantBucket(limit, claims, limit-claims, claims/2)
	close(done)
	t.Logf("%d lists were checked", <-checked)
	eventually(w, func() error { return w.wantObserved(claims) })
	for _, claim := range w.claims() {
		w.waitHolds(&quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}, 2, "")
	}
}
