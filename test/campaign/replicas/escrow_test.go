package replicas

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/replica"
)

// TestReplicasDieWithSlices kills and stops the replicas while they admit from quota reserved ahead of demand. Every
// object has one charge, and the reserved quota returns.
func TestReplicasDieWithSlices(t *testing.T) {
	t.Parallel()
	const limit, clients = 4_000, 4
	c := newCluster(t, 3)
	c.protect(limit)
	ctx, stop := context.WithCancel(t.Context())
	var churn kit.Churn
	for n := range clients {
		churn.Start(ctx, t, c, n)
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	alive := append([]*replica.Replica(nil), c.replicas...)
	for kill := range process.Kills(t, 6) {
		before := churn.Created.Load()
		c.eventually(func() error { return churn.Advance(ctx, c, before, 30) })
		for i, r := range alive {
			if isEnded(r) { // it stood still while it led
				alive[i] = c.start()
			}
		}
		victim := random.IntN(len(alive))
		if kill%3 == 2 {
			pause := time.Duration(5+random.IntN(25)) * time.Second
			stopped := alive[victim]
			stopped.Signal(syscall.SIGSTOP)
			t.Logf("a replica stands still for %s", pause)
			time.AfterFunc(pause, func() { stopped.Signal(syscall.SIGCONT) })
			continue
		}
		alive[victim].Signal(syscall.SIGKILL)
		<-alive[victim].Ended()
		alive[victim] = c.start()
	}
	stop()
	churn.Wait()
	t.Logf("%d objects were created", churn.Created.Load())
	c.eventually(func() error { return churn.Check(t.Context(), c, limit) })
}

func isEnded(r *replica.Replica) bool {
	select {
	case <-r.Ended():
		return true
	default:
		return false
	}
}
