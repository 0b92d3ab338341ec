package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Gate makes sure that this replica answers by nothing older than what the API server was told to ask
// by. Its watches may lag behind those of the replica that leads. V is a version of what was declared.
type Gate[V any] struct {
	// what is declared, in words.
	subject string
	// has tells whether the catalog knows of all that was declared by a version, and passed has it remember one
	// that it is past.
	has    func(V) bool
	passed func(V)
	// live is the version of what the API server has now.
	live func(context.Context) (V, error)
	// asking is held by the one request that asks the API server for all.
	listing chan struct{}
}

// PoliciesGate is about policies and registrations.
func PoliciesGate(known *Catalog, live client.Reader) *Gate[Version] {
	return &Gate[Version]{
		subject: "policies", has: known.Has, passed: known.MarkPassed, listing: make(chan struct{}, 1),
		live: func(ctx context.Context) (Version, error) {
			var policies quotav1alpha1.ClaimCreationPolicyList
			var registrations quotav1alpha1.ResourceRegistrationList
			if err := errors.Join(live.List(ctx, &policies), live.List(ctx, &registrations)); err != nil {
				return Version{}, fmt.Errorf("list the policies and registrations: %w", err)
			}
			return VersionOf(policies.Items, registrations.Items), nil
		},
	}
}

// AllocationsGate is about allocations.
func AllocationsGate(known *Catalog, live client.Reader) *Gate[Digest] {
	return &Gate[Digest]{
		subject: "allocations", has: known.HasAllocations, passed: known.MarkAllocationsPassed, listing: make(chan struct{}, 1),
		live: func(ctx context.Context) (Digest, error) {
			var allocations quotav1alpha1.ResourceQuotaAllocationList
			if err := live.List(ctx, &allocations); err != nil {
				return 0, fmt.Errorf("list the allocations: %w", err)
			}
			return allocationsVersionOf(allocations.Items), nil
		},
	}
}

// Wait waits until the catalog knows of all that was declared by a version. The error says that it did
// not come to know in time.
func (g *Gate[V]) Wait(ctx context.Context, version V) error {
	if g.has(version) {
		return nil
	}
	const poll = 10 * time.Millisecond
	var problem error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		var current bool
		current, problem = g.isCurrent(ctx, version)
		return current, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("this replica of Bursar has not heard yet of the %s that are in force", g.subject), problem)
	}
	return nil
}

// isCurrent tells whether the catalog is at a version or past it. Whatever the API server answers a list
// with that begins now was declared later than a version that somebody came with.
func (g *Gate[V]) isCurrent(ctx context.Context, version V) (bool, error) {
	select {
	case g.listing <- struct{}{}:
		defer func() { <-g.listing }()
	case <-ctx.Done():
		return false, nil
	}
	if g.has(version) {
		return true, nil
	}
	live, err := g.live(ctx)
	if err != nil || !g.has(live) {
		return false, err
	}
	g.passed(version)
	return true, nil
}
