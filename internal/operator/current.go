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
// by. Its watches may lag behind those of the replica that leads. V is a version of what was declared.
type currency[V any] struct {
	// what is declared, in words.
	what string
	// has tells whether the catalog knows of all that was declared by a version, and passed has it remember one
	// that it is past.
	has    func(V) bool
	passed func(V)
	// live is the version of what the API server has now.
	live func(context.Context) (V, error)
	// asking is held by the one request that asks the API server for all.
	asking chan struct{}
}

// policiesCurrency is about policies and registrations.
func policiesCurrency(known *catalog.Catalog, live client.Reader) *currency[catalog.Version] {
	return &currency[catalog.Version]{
		what: "policies", has: known.Has, passed: known.Passed, asking: make(chan struct{}, 1),
		live: func(ctx context.Context) (catalog.Version, error) {
			var policies quotav1alpha1.ClaimCreationPolicyList
			var registrations quotav1alpha1.ResourceRegistrationList
			if err := errors.Join(live.List(ctx, &policies), live.List(ctx, &registrations)); err != nil {
				return catalog.Version{}, fmt.Errorf("list the policies and registrations: %w", err)
			}
			return catalog.VersionOf(policies.Items, registrations.Items), nil
		},
	}
}

// allocationsCurrency is about allocations.
func allocationsCurrency(known *catalog.Catalog, live client.Reader) *currency[catalog.Digest] {
	return &currency[catalog.Digest]{
		what: "allocations", has: known.HasAllocations, passed: known.PassedAllocations, asking: make(chan struct{}, 1),
		live: func(ctx context.Context) (catalog.Digest, error) {
			var allocations quotav1alpha1.ResourceQuotaAllocationList
			if err := live.List(ctx, &allocations); err != nil {
				return 0, fmt.Errorf("list the allocations: %w", err)
			}
			return catalog.AllocationsVersionOf(allocations.Items), nil
		},
	}
}

// wait waits until the catalog knows of all that was declared by a version. The error says that it did
// not come to know in time.
func (c *currency[V]) wait(ctx context.Context, version V) error {
	if c.has(version) {
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
		return errors.Join(fmt.Errorf("this replica of Bursar has not heard yet of the %s that are in force", c.what), problem)
	}
	return nil
}

// isCurrent tells whether the catalog is at a version or past it. Whatever the API server answers a list
// with that begins now was declared later than a version that somebody came with.
func (c *currency[V]) isCurrent(ctx context.Context, version V) (bool, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return false, nil
	}
	if c.has(version) {
		return true, nil
	}
	live, err := c.live(ctx)
	if err != nil || !c.has(live) {
		return false, err
	}
	c.passed(version)
	return true, nil
}
