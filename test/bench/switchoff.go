package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	switchedOff     = "switched-off"
	switchOffRounds = 20
)

// measureSwitchOff measures the time from the request to disable or delete a policy until a create beyond the limit
// passes.
func (b *bench) measureSwitchOff(ctx context.Context) error {
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: switchedOff}}); err != nil {
		return err
	}
	fmt.Printf("\na policy that is switched off, %d rounds each\n", switchOffRounds)
	for _, way := range []struct {
		name string
		off  func(context.Context, *quotav1alpha1.ClaimCreationPolicy) error
	}{
		{"disabled", func(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy) error {
			return b.client.Patch(ctx, policy, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"enabled":false}}`)))
		}},
		{"deleted", func(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy) error {
			return b.client.Delete(ctx, policy)
		}},
	} {
		var times []time.Duration
		for n := range switchOffRounds {
			took, err := b.switchOff(ctx, fmt.Sprintf("%s-%d", way.name, n), way.off)
			if err != nil {
				return fmt.Errorf("a policy is %s: %w", way.name, err)
			}
			times = append(times, took)
		}
		slices.Sort(times)
		fmt.Printf("  %-8s until a create beyond the limit passes: p50 %s  slowest %s\n", way.name, round(times[len(times)/2]), round(times[len(times)-1]))
	}
	return nil
}

// switchOff makes a policy effective that denies every create, switches it off, and returns the time from then until a
// create succeeds.
func (b *bench) switchOff(ctx context.Context, name string, off func(context.Context, *quotav1alpha1.ClaimCreationPolicy) error) (time.Duration, error) {
	// The name belongs to a consumer without a grant.
	policy := policyFor(name, "v1", "ConfigMap", fmt.Sprintf("trigger.metadata.namespace == %q", switchedOff), resourceType, name)
	if err := b.client.Create(ctx, policy); err != nil {
		return 0, err
	}
	if err := b.waitUsable(ctx, []client.Object{policy}); err != nil {
		return 0, err
	}
	object := func() client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: switchedOff}}
	}
	create := func() error { return b.client.Create(ctx, object()) }
	if err := create(); !apierrors.IsForbidden(err) {
		return 0, fmt.Errorf("a create beyond the limit while policy %s is effective: got %v, want it to be denied", name, err)
	}
	begin := time.Now()
	if err := off(ctx, policy); err != nil {
		return 0, err
	}
	for {
		err := create()
		if err == nil {
			break
		}
		if !apierrors.IsForbidden(err) || time.Since(begin) > time.Minute {
			return 0, err
		}
	}
	took := time.Since(begin)
	if err := b.client.Delete(ctx, object()); err != nil {
		return 0, err
	}
	return took, client.IgnoreNotFound(b.client.Delete(ctx, policy))
}
