package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// measureRelease measures how soon capacity comes back.
func (b *bench) measureRelease(ctx context.Context) error {
	const clients = 32
	connections, err := b.connect(clients)
	if err != nil {
		return err
	}
	fmt.Println("\ncapacity that comes back")
	if err := b.measureOne(ctx, connections[0]); err != nil {
		return err
	}
	b.measureChurn(ctx, connections)
	if err := b.settle(ctx); err != nil {
		return err
	}
	return b.measureMany(ctx, connections)
}

// measureOne fills the narrow namespace to its limit and measures the time from the answer to a delete until the
// admission of one more create.
func (b *bench) measureOne(ctx context.Context, connection kubernetes.Interface) error {
	api := connection.CoreV1().ConfigMaps(narrow)
	for n := range narrowLimit {
		if _, err := api.Create(ctx, configMap(fmt.Sprintf("keep-%d", n)), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	var times []time.Duration
	for n := range 100 {
		if err := api.Delete(ctx, fmt.Sprintf("keep-%d", n), metav1.DeleteOptions{}); err != nil {
			return err
		}
		at := time.Now()
		for {
			_, err := api.Create(ctx, configMap(fmt.Sprintf("keep-%d", n+narrowLimit)), metav1.CreateOptions{})
			if err == nil {
				break
			}
			if !apierrors.IsForbidden(err) || time.Since(at) > time.Minute {
				return err
			}
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	fmt.Printf("  delete one, create another at the limit: p50 %s  p99 %s\n", round(times[len(times)/2]), round(times[len(times)-1]))
	return nil
}

// measureChurn lets every client delete its objects and create again, at the limit, and prints the used share of the
// quota.
func (b *bench) measureChurn(ctx context.Context, connections []kubernetes.Interface) {
	if err := connections[0].CoreV1().ConfigMaps(narrow).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "counted"}); err != nil {
		fmt.Println("  churn:", err)
		return
	}
	created, refused := make([]int, len(connections)), make([]int, len(connections))
	r := b.load(ctx, len(connections), 0, func(ctx context.Context, client, n int) error {
		api := connections[client].CoreV1().ConfigMaps(narrow)
		name := fmt.Sprintf("churn-%d", n)
		_, err := api.Create(ctx, configMap(name), metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			refused[client]++
			return nil
		}
		if err != nil {
			return err
		}
		created[client]++
		return api.Delete(ctx, name, metav1.DeleteOptions{})
	})
	fmt.Printf("  create and delete at a limit of %d: %.0f created and deleted/s, %.0f refused/s\n",
		narrowLimit, float64(sum(created))/r.elapsed.Seconds(), float64(sum(refused))/r.elapsed.Seconds())
}

// measureMany deletes 500 objects at once and measures until the last one's charge is back.
func (b *bench) measureMany(ctx context.Context, connections []kubernetes.Interface) error {
	const objects = 500
	before, err := b.claimCount(ctx)
	if err != nil {
		return err
	}
	if r := b.load(ctx, len(connections), objects, b.creator(connections, plenty)); r.failures > 0 {
		return r.failure
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	serial := b.serial
	begin := time.Now()
	r := b.load(ctx, len(connections), objects, func(ctx context.Context, client, n int) error {
		return connections[client].CoreV1().ConfigMaps(plenty).Delete(ctx, fmt.Sprintf("c%d-%d", serial, n), metav1.DeleteOptions{})
	})
	if r.failures > 0 {
		return r.failure
	}
	err = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		count, err := b.claimCount(ctx)
		return count <= before, err
	})
	if err != nil {
		return fmt.Errorf("wait for %d charges to come back: %w", objects, err)
	}
	fmt.Printf("  delete %d at once: deleted in %s, all freed in %s\n", objects, round(r.elapsed), round(time.Since(begin)))
	return nil
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
