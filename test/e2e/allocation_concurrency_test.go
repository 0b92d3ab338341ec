package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestManyOwnersAtOnce has 32 clients raise quotas in 50 projects by one, until nothing is left. In any order, the
// allocation hands out exactly the cap, and never more. The test runs alone: it would keep the requests of other tests
// waiting for longer than the timeout of webhooks.
func TestManyOwnersAtOnce(t *testing.T) {
	const clients, projects, limit = 32, 50, 500
	w := &team{T: t, name: nameOf(t)}
	for i := range projects {
		w.project(fmt.Sprint(i))
		w.mustGive(fmt.Sprint(i), "default", "count/secrets=0")
	}
	w.allocation("", fmt.Sprintf("count/secrets=%d", limit))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watched errgroup.Group
	watched.Go(func() error { return w.neverMoreThan(ctx, limit) })

	var group errgroup.Group
	var refused atomic.Int64
	for range clients {
		group.Go(func() error {
			for {
				err := w.raise(t.Context(), w.in(fmt.Sprint(rand.IntN(projects))), 1)
				switch {
				case isToBeTriedAgain(err):
				case apierrors.IsForbidden(err):
					refused.Add(1)
					return nil
				case err != nil:
					return err
				}
			}
		})
	}
	must(w, group.Wait())
	cancel()
	must(w, watched.Wait())
	sum, err := w.sum(t.Context())
	must(w, err)
	if sum != limit || refused.Load() != clients {
		t.Errorf("%d of %d are handed out, and %d of %d clients were refused", sum, limit, refused.Load(), clients)
	}
	w.waitUsed(w.name, fmt.Sprintf("count/secrets=%d", limit))
}

// isToBeTriedAgain reports whether a request had no decision: somebody else wrote first, or the server is too busy.
func isToBeTriedAgain(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

// raise gives more of a quota.
func (w *team) raise(ctx context.Context, namespace string, by int64) error {
	quota := &corev1.ResourceQuota{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, quota); err != nil {
		return err
	}
	more := quota.Spec.Hard[secrets]
	more.Add(*resource.NewQuantity(by, resource.DecimalSI))
	quota.Spec.Hard[secrets] = more
	return admin.Update(ctx, quota)
}

// sum adds up the amounts of the team's quotas at one time.
func (w *team) sum(ctx context.Context) (int64, error) {
	var quotas corev1.ResourceQuotaList
	if err := admin.List(ctx, &quotas); err != nil {
		return 0, err
	}
	var sum int64
	for _, quota := range quotas.Items {
		if len(quota.Namespace) > len(w.name) && quota.Namespace[:len(w.name)+1] == w.name+"-" {
			amount := quota.Spec.Hard[secrets]
			sum += amount.Value()
		}
	}
	return sum, nil
}

// neverMoreThan looks at all quotas, again and again, until ctx ends.
func (w *team) neverMoreThan(ctx context.Context, limit int64) error {
	for ctx.Err() == nil {
		sum, err := w.sum(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || sum > limit {
			return fmt.Errorf("%d of %d are handed out: %w", sum, limit, err)
		}
	}
	return nil
}

// TestAllOrNoneAtOnce has clients raise two resources under the caps of two allocations. One allocation has room for a
// few only. The other keeps nothing of the denied raises.
func TestAllOrNoneAtOnce(t *testing.T) {
	const clients, projects, few = 16, 16, 5
	w := newTeam(t)
	for i := range projects {
		w.project(fmt.Sprint(i))
	}
	w.allocation("-a", "count/secrets=1000")
	w.allocation("-b", fmt.Sprintf("count/configmaps=%d", few))
	var group errgroup.Group
	var made atomic.Int64
	for i := range clients {
		group.Go(func() error {
			for {
				err := w.give(fmt.Sprint(i), "default", "count/secrets=10", "count/configmaps=1")
				switch {
				case err == nil:
					made.Add(1)
					return nil
				case apierrors.IsForbidden(err):
					return nil
				case !isToBeTriedAgain(err):
					return err
				}
			}
		})
	}
	must(w, group.Wait())
	if made.Load() != few {
		t.Errorf("%d quotas were made, want %d", made.Load(), few)
	}
	w.waitUsed(w.name+"-b", fmt.Sprintf("count/configmaps=%d", few))
	w.waitUsed(w.name+"-a", fmt.Sprintf("count/secrets=%d", 10*few))
}
