package robustness

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/process"
)

const (
	// adoptedMax is how many objects are older than their policy.
	adoptedMax    = 1500
	adoptionKills = 2
)

// TestKillWhileAdopting kills the server while objects older than their policy begin to count. In the end every object
// counts once, far beyond the limits.
func TestKillWhileAdopting(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	t.Parallel()
	dir := t.TempDir()
	server := process.Start(t, dir, briefRequests...)
	api := connect(t, server)
	setUpFleets(t, api)
	createFleets(t, api)
	policy := fleetPolicy()
	create(t, api, policy)
	for range adoptionKills { // right after the policy, and right after a start
		server.Kill()
		server, api = restart(t, dir)
	}

	adoption := waitAdoption(t, api)
	if adoption.Failed != 0 || adoption.Processed != adoptedMax || adoption.Total != adoptedMax || adoption.Adopted > adoptedMax {
		t.Errorf("adoption of %d objects ended as %+v", adoptedMax, adoption)
	}
	if fleets := checkFleets(t, api); len(fleets) != adoptedMax {
		t.Errorf("there are %d fleets, want %d", len(fleets), adoptedMax)
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d after SIGTERM:\n%s", code, server.Output())
	}
	server, _ = restart(t, dir)
	checkFleets(t, connect(t, server))
}

// createFleets creates fleets of different sizes and payers.
func createFleets(t *testing.T, api client.Client) {
	t.Helper()
	const clients = 8
	var group errgroup.Group
	group.SetLimit(clients)
	for n := range adoptedMax {
		group.Go(func() error {
			payer := [...]string{"first", "second"}[n%2]
			return api.Create(t.Context(), newFleet(fmt.Sprint("old-", n), payer, int64(1+n%replicasMax)))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// waitAdoption waits until all objects count.
func waitAdoption(t *testing.T, api client.Client) *quotav1alpha1.AdoptionStatus {
	t.Helper()
	policy := fleetPolicy()
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if a := policy.Status.Adoption; a == nil || a.State != quotav1alpha1.AdoptionComplete {
			return fmt.Errorf("adoption is %+v", a)
		}
		return nil
	})
	return policy.Status.Adoption
}
