package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const secrets corev1.ResourceName = "count/secrets"

// TestAllocationAcrossReplicas has owners raise and lower quotas in many projects under one cap, with reviews to all
// replicas. Meanwhile it kills the leader, and stops and continues the next one. At no time do the quotas exceed the
// cap, and in the end the ledger agrees with them.
func TestAllocationAcrossReplicas(t *testing.T) {
	t.Parallel()
	const limit, owners, projects = 200, 12, 20
	c := newCluster(t, 3)
	c.allocate(limit, projects)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var raised, refused atomic.Int64
	for range owners {
		group.Go(func() {
			for ctx.Err() == nil {
				err := c.add(t.Context(), project(rand.IntN(projects)), rand.Int64N(30)-10)
				switch {
				case err == nil:
					raised.Add(1)
				case apierrors.IsForbidden(err):
					refused.Add(1)
				}
			}
		})
	}
	group.Go(func() {
		for ctx.Err() == nil {
			if sum, err := c.handedOut(t.Context()); err == nil && sum > limit {
				t.Errorf("%d of %d are handed out", sum, limit)
			}
		}
	})
	progress := func(what string) {
		t.Helper()
		before, beforeRefused := raised.Load(), refused.Load()
		c.eventually(func() error {
			if done, no := raised.Load()-before, refused.Load()-beforeRefused; done < 50 || no < 10 {
				return fmt.Errorf("after %s, %d quotas were changed and %d refused", what, done, no)
			}
			return nil
		})
	}
	progress("the start")
	leader := c.leader()
	leader.Signal(syscall.SIGKILL)
	<-leader.Ended()
	progress("the end of the leader")
	c.start().WaitReady(t)
	stopped := c.leader()
	stopped.Signal(syscall.SIGSTOP)
	progress("the leader stands still")
	c.eventually(func() error {
		if c.leader() == stopped {
			return fmt.Errorf("the one that stands still leads")
		}
		return nil
	})
	stopped.Resume(t)
	progress("it goes on without the lead")
	stop()
	group.Wait()
	sum, err := c.handedOut(t.Context())
	if err != nil || sum > limit {
		t.Errorf("%d of %d are handed out: %v", sum, limit, err)
	}
	c.eventually(func() error {
		allocation := &quotav1alpha1.ResourceQuotaAllocation{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "team"}, allocation); err != nil {
			return err
		}
		used := allocation.Status.Allocated.Used[secrets]
		if used.Value() != sum {
			return fmt.Errorf("the allocation says that %s are handed out, want %d", used.String(), sum)
		}
		return nil
	})
}

func project(i int) string { return fmt.Sprintf("team-%d", i) }

// allocate makes projects with a ResourceQuota each, and caps them.
func (c *cluster) allocate(limit int64, projects int) {
	c.Helper()
	labels := map[string]string{"team": "a"}
	hard := func(amount int64) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{secrets: *resource.NewQuantity(amount, resource.DecimalSI)}}
	}
	allocation := &quotav1alpha1.ResourceQuotaAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec:       quotav1alpha1.ResourceQuotaAllocationSpec{Selector: metav1.LabelSelector{MatchLabels: labels}, Allocation: hard(limit)},
	}
	objects := []client.Object{allocation}
	for i := range projects {
		objects = append(objects,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: project(i), Labels: labels}},
			&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: project(i), Name: "default"}, Spec: hard(0)})
	}
	for _, object := range objects {
		if err := c.Create(c.Context(), object); err != nil {
			c.Fatal(err)
		}
	}
	c.eventually(func() error {
		if err := c.Get(c.Context(), client.ObjectKeyFromObject(allocation), allocation); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(allocation.Status.Conditions, quotav1alpha1.ConditionReady) {
			return fmt.Errorf("the allocation is not enforced: %v", allocation.Status.Conditions)
		}
		return nil
	})
}

// add raises the ResourceQuota of a project, or lowers it.
func (c *cluster) add(ctx context.Context, project string, by int64) error {
	quota := &corev1.ResourceQuota{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: project, Name: "default"}, quota); err != nil {
		return err
	}
	amount := quota.Spec.Hard[secrets]
	quota.Spec.Hard[secrets] = *resource.NewQuantity(max(0, amount.Value()+by), resource.DecimalSI)
	return c.Update(ctx, quota)
}

// handedOut adds up the quotas of all projects at one time.
func (c *cluster) handedOut(ctx context.Context) (sum int64, err error) {
	var quotas corev1.ResourceQuotaList
	if err := c.List(ctx, &quotas); err != nil {
		return 0, err
	}
	for _, quota := range quotas.Items {
		amount := quota.Spec.Hard[secrets]
		sum += amount.Value()
	}
	return sum, nil
}
