package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// currency makes sure that this replica answers by nothing older than what the API server was told to ask
// by. Its watches may lag behind those of the replica that leads.
type currency struct {
	catalog *catalog.Catalog
	live    client.Reader
	// asking is held by the one request that asks the API server for all.
	asking chan struct{}
}

func newCurrency(catalog *catalog.Catalog, live client.Reader) *currency {
	return &currency{catalog: catalog, live: live, asking: make(chan struct{}, 1)}
}

// wait waits until the catalog knows of all that was declared by a version. The error says that it did
// not come to know in time.
func (c *currency) wait(ctx context.Context, version catalog.Version) error {
	if c.catalog.Has(version) {
		return nil
	}
	const poll = 10 * time.Millisecond
	var problem error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		var current bool
		current, problem = c.isCurrent(ctx, version)
		return current, nil
	})
	if err != nil {
		return errors.Join(errors.New("this replica of Bursar has not heard yet of the policies that are in force"), problem)
	}
	return nil
}

// isCurrent tells whether the catalog is at a version or past it. Whatever the API server answers a list
// with that begins now was declared later than a version that somebody came with.
func (c *currency) isCurrent(ctx context.Context, version catalog.Version) (bool, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return false, nil
	}
	if c.catalog.Has(version) {
		return true, nil
	}
	var policies quotav1alpha1.ClaimCreationPolicyList
	var registrations quotav1alpha1.ResourceRegistrationList
	if err := errors.Join(c.live.List(ctx, &policies), c.live.List(ctx, &registrations)); err != nil {
		return false, fmt.Errorf("list the policies and registrations: %w", err)
	}
	if !c.catalog.Has(catalog.VersionOf(policies.Items, registrations.Items)) {
		return false, nil
	}
	c.catalog.Passed(version)
	return true, nil
}
