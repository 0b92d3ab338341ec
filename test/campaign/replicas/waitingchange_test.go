package replicas

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

// TestRestartsWhileAChangeWaits changes the policy to request a type that nobody has registered, and then replaces
// every replica, also the leader, while clients create. The new processes have only ever seen the changed policy. All
// of them enforce the former one: exactly the limit is admitted. CREATES says how many creates there are.
func TestRestartsWhileAChangeWaits(t *testing.T) {
	t.Parallel()
	creates := process.Count(t, "CREATES", 1500)
	limit := creates * 2 / 3
	const clients = 16
	c := newCluster(t, 3)
	c.protect(int64(limit))
	c.changeToUnregistered()

	var admitted, denied atomic.Int64
	var group errgroup.Group
	for n := range clients {
		group.Go(func() error {
			for i := n; i < creates; i += clients {
				c.eventually(func() error {
					switch err := c.Create(t.Context(), platform.Map(i)); {
					case err == nil:
						admitted.Add(1)
					case platform.IsExceeded(err):
						denied.Add(1)
					case client.IgnoreAlreadyExists(err) == nil:
						admitted.Add(1) // by an earlier try without an answer
					default:
						return err
					}
					return nil
				})
			}
			return nil
		})
	}
	for n, old := range c.replicas[:3] {
		c.eventually(func() error {
			if done := int(admitted.Load() + denied.Load()); done < creates*n/4 {
				return fmt.Errorf("%d creates have an answer", done)
			}
			return nil
		})
		old.Signal(syscall.SIGKILL)
		<-old.Ended()
		c.start().WaitReady(t)
	}
	_ = group.Wait()

	if got := admitted.Load(); got != int64(limit) {
		t.Errorf("%d of %d creates were admitted, want %d", got, creates, limit)
	}
	c.wantMaps(int64(limit))
}

// changeToUnregistered has the policy also request an unregistered type, and waits until its status says so.
func (c *cluster) changeToUnregistered() {
	c.Helper()
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	policy.Name = "configmap"
	c.eventually(func() error {
		if err := c.Get(c.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		requests := &policy.Spec.Target.ResourceClaimTemplate.Spec.Requests
		*requests = append(*requests, quotav1alpha1.ResourceRequestTemplate{ResourceType: platform.Group + "/unregistered", Amount: 1})
		return c.Update(c.Context(), policy)
	})
	c.eventually(func() error {
		if err := c.Get(c.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady)
		if ready.ObservedGeneration != policy.Generation {
			return fmt.Errorf("nobody has decided on generation %d: %+v", policy.Generation, ready)
		}
		return nil
	})
}
