package claim

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// A claim does not fit, and a charge is on its way back. The decision holds no worker until the charge is back: many
// such claims would hold all workers, also those for other consumers' claims.
func TestDecisionIsPostponed(t *testing.T) {
	a, client := newAPI(t)
	registrations := catalog.New()
	register(registrations)
	c := process(t, a.Server, client, registrations, storagetest.New().Connect(nil))
	go c.Claims.Run(t.Context(), client.REST())
	if err := c.Claims.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Store.ExpectRelease(consumer, "another claim")
	name := types.NamespacedName{Namespace: "ns", Name: "c"}
	if granted, err := c.decide(t.Context(), task{name, consumer}); err != nil || granted {
		t.Fatalf("granted %v although there is no quota, %v", granted, err)
	}
	if state := claimcache.StateOf(a.claim()); state != claimcache.Pending {
		t.Errorf("the claim is denied before the charge is back: %+v", a.claim().Status)
	}
	if waiting := c.waitingOf(consumer); len(waiting) != 1 {
		t.Errorf("%d claims are in line for the charge, want the one that does not fit", len(waiting))
	}

	go func() { _ = c.Run(t.Context()) }()
	grant(t, c.Store) // capacity appears
	a.waitGranted(t)
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.postponed) == 0, nil
	})
	if err != nil {
		t.Error("a granted claim is still postponed")
	}
}

// The controller denies a claim after a long enough postponement, although the charge is still on its way.
func TestPostponedClaimIsDenied(t *testing.T) {
	a, client := newAPI(t)
	registrations := catalog.New()
	register(registrations)
	c := process(t, a.Server, client, registrations, storagetest.New().Connect(nil))
	c.Store.ExpectRelease(consumer, "another claim")
	claim := task{types.NamespacedName{Namespace: "ns", Name: "c"}, consumer}
	c.postponed[consumer] = map[types.NamespacedName]time.Time{claim.NamespacedName: time.Now()}
	if _, err := c.decide(t.Context(), task{claim.NamespacedName, consumer}); err != nil {
		t.Fatal(err)
	}
	if state := claimcache.StateOf(a.claim()); state != claimcache.Waiting {
		t.Errorf("the claim says %+v, want that it waits for quota", a.claim().Status)
	}
}

// A postponed claim stays in line if its decision fails, such as because the API server does not answer.
func TestPostponedClaimStaysInLine(t *testing.T) {
	a, client := newAPI(t)
	registrations := catalog.New()
	register(registrations)
	c := process(t, a.Server, client, registrations, storagetest.New().Connect(nil))
	go c.Claims.Run(t.Context(), client.REST())
	if err := c.Claims.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Store.ExpectRelease(consumer, "another claim")
	claim := task{types.NamespacedName{Namespace: "ns", Name: "c"}, consumer}
	if _, err := c.decide(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	a.Intercept(func(string, string) bool { return true })
	if _, err := c.decide(t.Context(), claim); err == nil {
		t.Fatal("decided without the API server")
	}
	if waiting := c.waitingOf(consumer); len(waiting) != 1 {
		t.Errorf("%d claims are in line, want the one that could not be decided", len(waiting))
	}
}
