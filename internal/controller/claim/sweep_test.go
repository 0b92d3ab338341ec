package claim

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/ledgerstore/storagetest"
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

// The record of a released claim stays while the claim does, which somebody else keeps, and nothing is asked of the API server for
// that. The record of a claim that went away unnoticed goes without a list of claims.
func TestSweepReleased(t *testing.T) {
	a, _ := newAPI(t)
	now := metav1.Now()
	a.claim.DeletionTimestamp, a.claim.Finalizers = &now, []string{"example.com/keep"}
	requests := &counting{Handler: a}
	server := httptest.NewServer(requests)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	client, err := claims.NewClient(&rest.Config{Host: server.URL, QPS: -1}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	memory := storagetest.New()
	c := process(t, client, catalog.New(), memory.Connect(nil))
	go c.Claims.Run(t.Context(), client.REST())
	if err := c.Claims.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	grant(t, c.Store)
	for _, id := range []string{"u1", "gone"} {
		if _, err := c.Store.Reserve(t.Context(), consumer, ledger.Reservation{
			Key: ledgerstore.ClaimKey(id), Charges: []ledger.Charge{{ResourceType: "t", Amount: 1}}, Claim: claims.Reference(types.NamespacedName{Namespace: "ns", Name: id}),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Store.Release(t.Context(), consumer, id, func(context.Context) (*ledgerstore.Holding, error) {
			return &ledgerstore.Holding{ClaimUID: id, Key: ledgerstore.ClaimKey(id)}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	const atOnce = -time.Second
	for range 10 {
		c.sweepReleased(t.Context(), atOnce)
	}
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return len(memory.Books(consumer).Released) == 1, nil
	})
	if recorded := memory.Books(consumer).Released; err != nil || recorded[0] != "u1" {
		t.Errorf("the books have recorded %v, want u1 alone", recorded)
	}
	asked := requests.versions.Load()
	for range 10 {
		c.sweepReleased(t.Context(), atOnce)
	}
	if requests.lists.Load() != 0 || requests.versions.Load() != asked {
		t.Errorf("the claims were listed %d times, and the version asked for %d times more", requests.lists.Load(), requests.versions.Load()-asked)
	}
}
