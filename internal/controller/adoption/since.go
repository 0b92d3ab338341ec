package adoption

import (
	"context"
	"errors"
	"fmt"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// errIncomplete is returned if objects may be left without a claim.
var errIncomplete = errors.New("not all objects could be charged")

// AdoptSince charges all objects of enforcing policies without a claim or reservation that were created since a time,
// and that this replica has not reviewed. It lists them from the API server. After an error, some may be left. Unlike
// the scans of policies, it may run on any replica, and does not change the status of policies.
func (c *Controller) AdoptSince(ctx context.Context, since time.Time) error {
	if err := c.Claims.WaitForSync(ctx); err != nil {
		return fmt.Errorf("wait for the list of claims: %w", err)
	}
	var policies quotav1alpha1.ClaimCreationPolicyList
	if err := c.Client.List(ctx, &policies); err != nil {
		return fmt.Errorf("list the policies: %w", err)
	}
	var errs []error
	for i := range policies.Items {
		p := c.Catalog.Policy(policies.Items[i].Name)
		if p == nil || !p.Enforces() || p.UsesRequest() {
			continue // a policy that is not effective gets a scan before it is again
		}
		if err := c.adoptSince(ctx, p, since); err != nil {
			errs = append(errs, fmt.Errorf("charge the objects of ClaimCreationPolicy %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) adoptSince(ctx context.Context, p *catalog.Policy, since time.Time) error {
	_, served, err := c.Kinds.VersionedResourceFor(ctx, p.Trigger)
	if err != nil {
		return fmt.Errorf("look up its kind: %w", err)
	}
	if !served {
		return nil // nothing admits such objects, and they are charged when the kind is served again
	}
	s := &scan{Controller: c, policy: p, since: since, progress: &progress{policy: p.Name, isRecheck: true, now: c.now}}
	complete, err := s.adoptAll(ctx)
	if err == nil && !complete {
		err = errIncomplete
	}
	return err
}
