package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bursar/bursar/test/replica"
)

const (
	// replicaTimeout is how long a replica may take to be ready.
	replicaTimeout = 5 * time.Minute
	// readyInterval is the time between two probes of readiness.
	readyInterval = 20 * time.Millisecond
)

// cluster is an API server, a process of its own, with replicas of the operator behind one address. Their
// configuration is the default one.
type cluster struct {
	binary, dir string
	kubeconfig  string // of the replicas
	server      *child
	balancer    *replica.Balancer
	replicas    []*replica.Replica
}

func startCluster(ctx context.Context, binary string, replicas int) (*cluster, error) {
	dir, err := os.MkdirTemp("", "bursar-bench-")
	if err != nil {
		return nil, err
	}
	c := &cluster{binary: binary, dir: dir, kubeconfig: filepath.Join(dir, "operator.kubeconfig"), replicas: make([]*replica.Replica, replicas)}
	if err := c.start(ctx); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context) (err error) {
	if c.server, err = startAPIServer(ctx, c.dir); err != nil {
		return err
	}
	if c.balancer, err = replica.NewBalancer(); err != nil {
		return err
	}
	admin, err := adminOf(c.dir)
	if err != nil {
		return err
	}
	if err := writeServiceAccount(ctx, admin, c.kubeconfig); err != nil {
		return fmt.Errorf("make a ServiceAccount for the replicas: %w", err)
	}
	return c.startReplicas(ctx)
}

// startReplicas starts all replicas at once and waits until they are ready.
func (c *cluster) startReplicas(ctx context.Context) error {
	for n := range c.replicas {
		if err := c.startReplica(n); err != nil {
			return err
		}
	}
	for _, r := range c.replicas {
		if err := waitReady(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) startReplica(n int) error {
	dir := filepath.Join(c.dir, fmt.Sprint("replica-", n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var err error
	c.replicas[n], err = replica.Start(c.balancer, replica.Options{Binary: c.binary, Dir: dir, Kubeconfig: c.kubeconfig})
	return err
}

// waitReady asks a replica itself: the balancer need not have found out yet.
func waitReady(ctx context.Context, r *replica.Replica) error {
	err := wait.PollUntilContextTimeout(ctx, readyInterval, replicaTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.Ended():
			log, _ := os.ReadFile(r.Log())
			return false, fmt.Errorf("it ended: %s", log[max(0, len(log)-2000):])
		default:
			_, err := get(ctx, r.Endpoints()+"/readyz")
			return err == nil, nil
		}
	})
	if err != nil {
		return fmt.Errorf("wait for a replica to be ready: %w", err)
	}
	return nil
}

// endReplicas asks some replicas to end, and waits until they have: each goes on answering for a while.
func endReplicas(some []*replica.Replica) {
	for _, r := range some {
		r.Signal(syscall.SIGTERM)
	}
	for _, r := range some {
		<-r.Ended()
		r.Kill()
	}
}

func (c *cluster) directory() string { return c.dir }

func (c *cluster) processes() []process {
	all := []process{{c.server.pid(), "API server", func(ctx context.Context) ([]byte, error) { return apiServerMetrics(ctx, c.dir) }}}
	for n, r := range c.replicas {
		metrics := func(ctx context.Context) ([]byte, error) { return get(ctx, r.Endpoints()+"/metrics") }
		all = append(all, process{pid(r.Pid()), fmt.Sprint("replica ", n+1), metrics})
	}
	return all
}

func (c *cluster) restart(ctx context.Context) (time.Duration, error) {
	endReplicas(c.replicas[:1])
	begin := time.Now()
	if err := c.startReplica(0); err != nil {
		return 0, err
	}
	err := waitReady(ctx, c.replicas[0])
	return time.Since(begin), err
}

func (c *cluster) withoutQuota(ctx context.Context, do func() error) error {
	endReplicas(c.replicas)
	if err := do(); err != nil {
		return err
	}
	return c.startReplicas(ctx)
}

func (c *cluster) stop() {
	for _, r := range c.replicas {
		if r != nil {
			r.Kill()
		}
	}
	if c.balancer != nil {
		c.balancer.Close()
	}
	c.server.end()
	_ = os.RemoveAll(c.dir)
}

// get asks for a page and returns it if the answer is a success.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	page, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s says %s: %s", url, response.Status, page)
	}
	return page, nil
}
