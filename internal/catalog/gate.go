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

// Gate makes this replica wait until its catalog is at least as new as the published webhooks. Its watches may lag
// behind those of the leader. V is the type of the version.
type Gate[V any] struct {
	// subject names the declared objects, for messages.
	subject string
	// has reports whether the catalog has all objects declared by a version, and passed records a version that it is
	// past.
	has    func(V) bool
	passed func(V)
	// live returns the version of the API server's current objects.
	live func(context.Context) (V, error)
	// The single request for the live objects holds listing.
	listing chan struct{}
}

// PoliciesGate returns the gate for policies and registrations.
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

// AllocationsGate returns the gate for allocations.
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

// Wait waits until the catalog has all objects declared by a version. It returns an error if ctx ends first.
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
		return errors.Join(fmt.Errorf("this replica of Bursar has not loaded the current %s yet", g.subject), problem)
	}
	return nil
}

// isCurrent reports whether the catalog is at a version or past it. A list that begins now is at least as new as the
// version in a request.
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
