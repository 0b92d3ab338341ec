package claim

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// counting counts the lists of claims that are not of the cache.
type counting struct {
	http.Handler
	lists, versions atomic.Int64
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case query.Has("fieldSelector"):
		c.lists.Add(1)
	case query.Get("limit") == "1":
		c.versions.Add(1)
	}
	c.Handler.ServeHTTP(w, r)
}

// sweeping returns a controller and a ledger with the records of two released claims: u1, kept by another client's
// finalizer, and one deleted unnoticed.
func sweeping(t *testing.T) (*Controller, api, *counting, *storagetest.Memory) {
	t.Helper()
	a, _ := newAPI(t)
	a.change(func(claim *quotav1alpha1.ResourceClaim) {
		claim.DeletionTimestamp, claim.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	})
	requests := &counting{Handler: a}
	client := claimstest.ClientOf(t, requests)
	memory := storagetest.New()
	c := process(t, a.Server, client, catalog.New(), memory.Connect(nil))
	go c.Claims.Run(t.Context(), client.REST())
	// A moment after the cache has synced, its reflector has the version.
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return c.Claims.Version() != "", nil
	}); err != nil {
		t.Fatal(err)
	}
	grant(t, c.Store)
	for _, id := range []string{"u1", "gone"} {
		if _, err := storagetest.Reserve(t.Context(), c.Store, consumer, ledger.Reservation{
			Key: ledgerstore.ObjectKey("policy", id), Charges: []ledger.Charge{{ResourceType: "t", Amount: 1}}, Claim: claims.Reference(types.NamespacedName{Namespace: "ns", Name: id}),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Store.Release(t.Context(), consumer, id, func(context.Context) (*ledgerstore.ClaimCharges, error) {
			return &ledgerstore.ClaimCharges{ClaimUID: id, Key: ledgerstore.ObjectKey("policy", id)}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return c, a, requests, memory
}

// wantKept waits until the ledger has only the record of the existing claim.
func wantKept(t *testing.T, memory *storagetest.Memory) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return len(memory.Snapshot(consumer).Released) == 1, nil
	})
	if recorded := memory.Snapshot(consumer).Released; err != nil || recorded[0] != "u1" {
		t.Errorf("the ledger has recorded %v, want u1 alone", recorded)
	}
}

// atOnce is an age below that of all records.
const atOnce = -time.Second

// The record of a released claim stays as long as another client's finalizer keeps the claim, without requests to the
// API server. The record of a claim deleted unnoticed goes without a list of claims.
func TestSweepReleased(t *testing.T) {
	c, _, requests, memory := sweeping(t)
	for range 10 {
		c.sweepReleased(t.Context(), atOnce)
	}
	wantKept(t, memory)
	if err := c.Store.View(t.Context(), consumer, func(*ledger.Ledger) {}); err != nil { // the store knows it a moment later
		t.Fatal(err)
	}
	asked := requests.versions.Load()
	for range 10 {
		c.sweepReleased(t.Context(), atOnce)
	}
	if requests.lists.Load() != 0 || requests.versions.Load() != asked {
		t.Errorf("the claims were listed %d times, and the version asked for %d times more", requests.lists.Load(), requests.versions.Load()-asked)
	}
}

// In a quiet cluster the cache gets no events. Then the next sweep lists the claims once.
func TestSweepReleasedOfAQuietServer(t *testing.T) {
	c, a, requests, memory := sweeping(t)
	a.Touch() // by a write of something else
	for range 2 {
		c.sweepReleased(t.Context(), atOnce)
	}
	wantKept(t, memory)
	for range 10 {
		c.sweepReleased(t.Context(), atOnce)
	}
	if lists := requests.lists.Load(); lists != 1 {
		t.Errorf("the claims were listed %d times, want once", lists)
	}
}
