package adoption

import (
	"context"
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// errIncomplete means that objects may still lack a claim.
var errIncomplete = errors.New("not all objects could be charged")

// AdoptSince charges all objects created since a time without a claim or reservation, and without a review by this
// replica. It lists them from the API server. It returns the resource types of the incompletely applied policies, with
// the errors. Unlike the scans of policies, it may run on any replica, and does not change the status of policies.
func (c *Controller) AdoptSince(ctx context.Context, since time.Time) (uncharged []string, err error) {
	var policies quotav1alpha1.ClaimCreationPolicyList
	err = c.Claims.WaitForSync(ctx)
	if err == nil {
		err = c.Client.List(ctx, &policies)
	}
	if err != nil {
		return nil, fmt.Errorf("list the claims and the policies: %w", err)
	}
	var errs []error
	for i := range policies.Items {
		object := &policies.Items[i]
		if err := c.adoptSince(ctx, object, since); err != nil {
			errs = append(errs, fmt.Errorf("charge the objects of ClaimCreationPolicy %s: %w", object.Name, err))
			uncharged = append(uncharged, object.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()...)
		}
	}
	return uncharged, errors.Join(errs...)
}

// adoptSince is AdoptSince for one policy. An ineffective policy gets a scan before it is effective again.
func (c *Controller) adoptSince(ctx context.Context, object *quotav1alpha1.ClaimCreationPolicy, since time.Time) error {
	p := c.Catalog.Policy(object.Name)
	switch {
	case p == nil && object.IsEnabled() && apimeta.IsStatusConditionTrue(object.Status.Conditions, quotav1alpha1.ConditionReady):
		return errIncomplete // this replica does not know it yet
	case p == nil || p.UsesRequest() || p.CountsObjects():
		return nil
	}
	return c.adoptAllSince(ctx, p, since)
}

func (c *Controller) adoptAllSince(ctx context.Context, p *catalog.Policy, since time.Time) error {
	_, served, err := c.Kinds.VersionedResourceFor(ctx, p.Trigger)
	if err != nil {
		return fmt.Errorf("look up its kind: %w", err)
	}
	if !served {
		return nil // nothing admits such objects, and adoption charges them when the kind comes back
	}
	s := &scan{Controller: c, policy: p, since: since, progress: &progress{policy: p.Name, isRecheck: true, now: c.now}}
	complete, err := s.adoptAll(ctx)
	if err == nil && (!complete || s.uncharged.Load() > 0) {
		err = errIncomplete
	}
	return err
}
