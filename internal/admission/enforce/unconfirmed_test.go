package enforce

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// begin begins a request of mallory for some maps. It fails if it is still there at its end.
func begin(u *unconfirmed, uid types.UID, policy string, amount ledger.Amount) (*attempt, ledgerstore.Spare) {
	var fail func(r *heldRequest)
	fail = func(r *heldRequest) { u.fail(r, fail) }
	a, spare, _ := u.begin(requestKey{uid, policy}, share{"user mallory", organization("acme")}, configMap.GroupKind(),
		[]ledger.Charge{{ResourceType: "maps", Amount: amount}}, fail)
	return a, spare
}

// reserve begins a request and reserves its quota.
func reserve(u *unconfirmed, uid types.UID, policy string, amount ledger.Amount) ledgerstore.Spare {
	a, spare := begin(u, uid, policy, amount)
	u.conclude(a, true)
	return spare
}

// refuse begins a request that reserves nothing.
func refuse(u *unconfirmed, uid types.UID, policy string, amount ledger.Amount) ledgerstore.Spare {
	a, spare := begin(u, uid, policy, amount)
	u.conclude(a, false)
	return spare
}

// wantSpare compares the amount that has to stay free beside a new request with want.
func wantSpare(t *testing.T, reason string, spare ledgerstore.Spare, want ledger.Amount) {
	t.Helper()
	var got ledger.Amount
	for _, charge := range spare.Charges {
		got += charge.Amount
	}
	if got != want {
		t.Errorf("%s: %d have to be free, want %d", reason, got, want)
	}
}

func TestUpdatesCountLikeCreates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unconfirmed{lifetime: time.Minute}

		wantSpare(t, "a single request may take everything", reserve(u, "a", "p", 8), 0)
		wantSpare(t, "repeated at once, it is the same request", reserve(u, "a", "p", 8), 0)
		time.Sleep(appearsWithin)
		wantSpare(t, "repeated later, the first may have failed", refuse(u, "a", "p", 8), 8+8+8)
		wantSpare(t, "another object counts with the first", reserve(u, "b", "p", 1), 1+1+8)
		u.markInTheWay(share{"user victim", organization("acme")}, []types.UID{"a", "b"})
		time.Sleep(time.Minute)
		synctest.Wait()
		wantSpare(t, "two requests have failed, and hold nothing", refuse(u, "c", "", 3), 3+3)
		time.Sleep(failureMemory * time.Minute)
		synctest.Wait()
		wantSpare(t, "failures are forgotten", reserve(u, "d", "", 3), 0)
	})
}

// An update under several policies is one request.
func TestPoliciesShareAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unconfirmed{lifetime: time.Minute}

		wantSpare(t, "a single update may take everything", reserve(u, "a", "p", 8), 0)
		wantSpare(t, "by each policy", reserve(u, "a", "q", 8), 0)
		wantSpare(t, "also repeated at once", reserve(u, "a", "p", 8), 0)
		wantSpare(t, "another object counts with both", refuse(u, "b", "p", 1), 1+1+8+8)
		u.markInTheWay(share{"user victim", organization("acme")}, []types.UID{"a"})
		time.Sleep(time.Minute)
		synctest.Wait()
		wantSpare(t, "it fails once, and once is a mistake", refuse(u, "b", "p", 1), 0)
	})
}

// A repetition of an update changes nothing about what the update before it holds, unless it holds more.
func TestRepeatedUpdatesHoldTheirQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unconfirmed{lifetime: time.Minute}
		reserve(u, "a", "p", 8)

		refuse(u, "a", "p", 100)
		wantSpare(t, "a refused repetition frees nothing", refuse(u, "b", "", 1), 1+1+8)
		reserve(u, "a", "p", 1)
		wantSpare(t, "a smaller one neither", refuse(u, "b", "", 1), 1+1+8)
		reserve(u, "a", "p", 9)
		wantSpare(t, "a larger one holds more", refuse(u, "b", "", 1), 1+1+9)
		reserve(u, "b", "", 1)
		wantSpare(t, "the ledger has a part of it already", refuse(u, "a", "p", 10), 1+1+10)
	})
}

// An update that fails elsewhere does not count as a new one for ever, however often it is repeated.
func TestUpdateRepeatedForEverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unconfirmed{lifetime: time.Minute}

		const pause = 700 * time.Millisecond // no repetition comes at the very end of a lifetime
		for began := time.Now(); time.Since(began) < failuresMin*time.Minute-pause; time.Sleep(pause) {
			reserve(u, "a", "p", 8)
			u.markInTheWay(share{"user victim", organization("acme")}, []types.UID{"a"})
		}
		synctest.Wait()

		wantSpare(t, "it has failed twice, and holds its quota still", refuse(u, "b", "", 1), 1+1+8)
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		wantSpare(t, "it holds nothing any more, and one failure is a mistake", refuse(u, "b", "", 1), 0)
	})
}

func TestHugeAmountsDoNotOverflow(t *testing.T) {
	u := &unconfirmed{lifetime: time.Hour}
	for n := range 3 {
		reserve(u, types.UID(fmt.Sprint(n)), "", ledger.AmountMax)
	}
	wantSpare(t, "no limit allows it", reserve(u, "one", "", 1), ledger.AmountMax)
	for n := range 3 {
		u.end(types.UID(fmt.Sprint(n)), func(*heldRequest) bool { return true })
	}
	wantSpare(t, "the huge ones are gone", reserve(u, "two", "", 1), 1+1+1)
}

// A tenant cannot choose who it counts as.
func TestRequesterOf(t *testing.T) {
	tests := map[string]struct{ reason, user, want string }{
		"a person":         {"one in all namespaces", "mallory", "user mallory"},
		"a ServiceAccount": {"whoever makes one can make many", "system:serviceaccount:a:one", "the ServiceAccounts of namespace a"},
		"a controller":     {"it acts for the namespace", "system:serviceaccount:kube-system:job-controller", "user system:serviceaccount:kube-system:job-controller in namespace n"},
		"a component":      {"it acts for the namespace", "system:kube-controller-manager", "user system:kube-controller-manager in namespace n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := requesterOf(authenticationv1.UserInfo{Username: tt.user}, "n"); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}

// BenchmarkUnconfirmed is one create and the appearance of its object, while other requests of the user, and of other
// users, are in flight.
func BenchmarkUnconfirmed(b *testing.B) {
	for _, others := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			u := &unconfirmed{lifetime: time.Hour}
			for n := range others {
				reserve(u, types.UID(fmt.Sprint(n)), "", 1)
			}
			for b.Loop() {
				reserve(u, "new", "", 1)
				u.end("new", func(*heldRequest) bool { return true })
			}
		})
	}
}

// BenchmarkUnconfirmedReservations is what a denial costs with a full ledger of requests in flight.
func BenchmarkUnconfirmedReservations(b *testing.B) {
	h := newFullLedger(b)
	for b.Loop() {
		h.unconfirmedReservations(organization("acme"))
	}
}

// BenchmarkLookAt is what each of many who wait for a full ledger pays for a look.
func BenchmarkLookAt(b *testing.B) {
	h := newFullLedger(b)
	reserveMap(b, h, "young")
	for b.Loop() {
		h.lookAt([]quotav1alpha1.ConsumerRef{organization("acme")})
	}
}

// newFullLedger returns a handler with nearly as many creates for acme in flight as a ledger can hold.
func newFullLedger(b *testing.B) *Handler {
	b.Helper()
	store := ledgerstore.New(b.Context(), storagetest.New().Connect(func(_ context.Context, _ storagetest.Call) storagetest.Fault { return storagetest.None }))
	h := New(Dependencies{Store: store, Objects: absent()})
	err := store.SetGrants(b.Context(), organization("acme"), func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "maps", Amount: ledgerstore.ReservationsMax}}}}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for n := range ledgerstore.ReservationsMax - 1 {
		reserveMap(b, h, fmt.Sprint(n))
	}
	return h
}

// reserveMap reserves quota of acme for the create of a ConfigMap that has yet to appear.
func reserveMap(b *testing.B, h *Handler, name string) {
	b.Helper()
	intent := claims.Intent{Kind: configMap, Object: types.NamespacedName{Namespace: "n", Name: name}}
	_, err := storagetest.Reserve(b.Context(), h.Store, organization("acme"), ledger.Reservation{
		Key: ledgerstore.ObjectKey("acme", name), Charges: []ledger.Charge{{ResourceType: "maps", Amount: 1}}, Claim: intent.Encode(),
	})
	if err != nil {
		b.Fatal(err)
	}
}
