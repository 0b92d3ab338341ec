package robustness

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/process"
)

// TestKillBeforeUnreviewedAreCharged kills the server while it still has to charge objects created by break-glass. The
// next one charges the others, despite younger claims.
func TestKillBeforeUnreviewedAreCharged(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	t.Parallel()
	const objects, claimsOfEach, charged = 400, 2, 200
	dir := t.TempDir()
	server := process.Start(t, dir, briefRequests...)
	api := connect(t, server)
	setUp(t, api)
	eventually(t, func() error {
		var policies quotav1alpha1.ClaimCreationPolicyList
		if err := api.List(t.Context(), &policies); err != nil {
			return err
		}
		for _, p := range policies.Items {
			if p.Status.Adoption == nil || p.Status.Adoption.State != quotav1alpha1.AdoptionComplete {
				return fmt.Errorf("policy %s has not looked at all objects", p.Name)
			}
		}
		return nil
	})
	config := server.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "root", Groups: []string{quotav1alpha1.BreakGlassGroup, "system:masters"}}
	config.WarningHandler = rest.NoWarnings{}
	glass, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(8)
	for n := range objects {
		group.Go(func() error { return glass.Create(t.Context(), configMap(fmt.Sprint("glass-", n))) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	wait := func(atLeast int) {
		t.Helper()
		eventually(t, func() error {
			var claims quotav1alpha1.ResourceClaimList
			if err := api.List(t.Context(), &claims); err != nil {
				return err
			}
			if len(claims.Items) < atLeast {
				return fmt.Errorf("there are %d claims, want %d", len(claims.Items), atLeast)
			}
			if len(claims.Items) > claimsOfEach*objects {
				return errors.New("an object is charged twice")
			}
			return nil
		})
	}
	wait(charged)
	server.Kill()
	_, api = restart(t, dir)
	wait(claimsOfEach * objects)
}
