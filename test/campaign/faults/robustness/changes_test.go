package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

const (
	changers = 6
	// fleetsMax is how many fleets there may be. Several clients work on each.
	fleetsMax   = 8
	changeKills = 3
)

// TestKillUnderChanges kills the server while clients create, resize, scale, hand over and delete fleets at the limits.
// At no time do more replicas exist than allowed. In the end every fleet has a charge for its replicas, on its payer.
func TestKillUnderChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	server := process.Start(t, dir, briefRequests...)
	api := connect(t, server)
	setUpFleets(t, api)
	policy := fleetPolicy()
	create(t, api, policy)
	waitReady(t, api, policy)
	for round := range changeKills {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		changes := startChanges(t, server, random)
		changes.wait(t, 25+random.IntN(40))
		server.Kill()
		changes.stop()
		t.Logf("round %d: %v", round, changes.made)
		server, _ = restart(t, dir)
	}
	fleets := checkFleets(t, connect(t, server))
	t.Logf("in the end %v", totals(fleets))
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d after SIGTERM:\n%s", code, server.Output())
	}
	server, _ = restart(t, dir)
	checkFleets(t, connect(t, server))
}

// changes go on without pause until stop.
type changes struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	// made counts the acknowledged changes.
	made  map[string]int
	total int
}

func startChanges(t *testing.T, server *process.Server, random *rand.Rand) *changes {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &changes{cancel: cancel, made: map[string]int{}}
	watching := connect(t, server)
	c.group.Go(func() { watchLimits(ctx, t, watching) })
	for range changers {
		f := &fleets{Client: connect(t, server), Rand: rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))}
		c.group.Go(func() {
			for ctx.Err() == nil {
				change, err := f.change(ctx)
				c.note(t, change, err)
			}
		})
	}
	return c
}

// watchLimits looks at the stored fleets again and again until ctx ends, and fails the test if
// those of a payer have more replicas than it may have.
func watchLimits(ctx context.Context, t *testing.T, api client.Client) {
	const every = 20 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		// An error says nothing: the server may be down.
		fleets, _ := listFleets(ctx, api)
		for payer, total := range totals(fleets) {
			if total > payers[payer] {
				t.Errorf("%d replicas of %s are stored, more than the limit of %d", total, payer, payers[payer])
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// note counts a change, and fails the test after an error for an unexpected reason.
func (c *changes) note(t *testing.T, change string, err error) {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.made[change]++
		c.total++
	case !errors.As(err, &status), status.Status().Code >= 500, apierrors.IsTooManyRequests(err):
	case platform.IsExceeded(err):
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
	default:
		t.Errorf("%s: %v", change, err)
	}
}

// wait waits for a number of acknowledged changes.
func (c *changes) wait(t *testing.T, enough int) {
	t.Helper()
	eventually(t, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.total < enough {
			return fmt.Errorf("%d changes were made", c.total)
		}
		return nil
	})
}

func (c *changes) stop() {
	c.cancel()
	c.group.Wait()
}

// fleets changes fleets at random.
type fleets struct {
	client.Client
	*rand.Rand
}

// change makes one change and returns its name.
func (f *fleets) change(ctx context.Context) (string, error) {
	name := fmt.Sprint("f", f.IntN(fleetsMax))
	payer := [...]string{"first", "second"}[f.IntN(2)]
	replicas := f.Int64N(replicasMax + 1)
	fleet := newFleet(name, payer, replicas)
	switch f.IntN(10) {
	case 0:
		return "delete", f.Delete(ctx, fleet)
	case 1, 2:
		return "hand over", f.alter(ctx, name, payer, "payer")
	case 3, 4:
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: int32(replicas)}}
		return "scale", f.SubResource("scale").Update(ctx, fleet, client.WithSubResourceBody(scale))
	case 5, 6:
		return "resize", f.alter(ctx, name, replicas, "replicas")
	default:
		return "create", f.Create(ctx, fleet)
	}
}

// alter sets a field of a fleet's spec.
func (f *fleets) alter(ctx context.Context, name string, value any, field string) error {
	fleet := newFleet(name, "", 0)
	if err := f.Get(ctx, client.ObjectKeyFromObject(fleet), fleet); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(fleet.Object, value, "spec", field); err != nil {
		return err
	}
	return f.Update(ctx, fleet)
}
