package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// Two reviews of one create make one claim, even if the first settles before the second reserves. The same holds for
// a claim with another name because its own is taken.
func TestSecondReviewOfARenamedClaim(t *testing.T) {
	server := claimstest.New(&quotav1alpha1.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "taken", UID: "other"},
	})
	memory, client := storagetest.New(), server.Client(t)
	store := ledgerstore.New(t.Context(), memory.Connect(nil))
	e := engine.New(engine.Dependencies{
		Store: store, Objects: objectcache.New(nil, onlyFleets{}), Claims: claimcache.New(), Client: client, Catalog: catalog.New(), SystemNamespace: "sys", Log: logr.Discard(),
	})
	e.Claims.OnChange(func(_, after *claimcache.Claim) { e.Seen(after.UID) })
	go e.Claims.Run(t.Context(), client.REST())
	err := store.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "t", Amount: 10}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		intent := claims.Intent{Claim: types.NamespacedName{Namespace: "ns", Name: "taken"}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Object: types.NamespacedName{Namespace: "ns", Name: "a"}}
		_, err := storagetest.Reserve(t.Context(), store, acme, ledger.Reservation{Key: ledgerstore.ObjectKey("p", "u"), ReservedAt: time.Now().Unix(), Charges: []ledger.Charge{{ResourceType: "t", Amount: 1}}, Claim: intent.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range store.ReservationsFor("u") {
			if _, err := e.Materialize(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return len(memory.Snapshot(acme).Reservations) == 0, nil
		})
		if err != nil {
			t.Fatal("a reservation is neither settled nor cancelled")
		}
	}
	if used := memory.Snapshot(acme).Used; len(used) != 1 || used[0].Amount != 1 {
		t.Errorf("one object, %d claims; used %+v", len(server.List())-1, used)
	}
}
