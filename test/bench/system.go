package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// system is what is measured: a standalone server, or an API server with replicas of the operator.
type system interface {
	// directory holds everything that is kept.
	directory() string
	// processes are those that are measured.
	processes() []process
	// restart ends a process that enforces quota, starts it again, and returns how long that took from
	// the start until it was ready.
	restart(ctx context.Context) (time.Duration, error)
	// withoutQuota has something done while the API server runs and nothing enforces quota.
	withoutQuota(ctx context.Context, do func() error) error
	// stop ends its processes and removes what they keep.
	stop()
}

// startSystem starts a standalone server or, if replicas is not zero, so many replicas of the operator on
// an API server. admission and journal are the flags of a standalone server. It returns once quota is enforced.
func startSystem(ctx context.Context, binary, admission, journal string, replicas int) (system, error) {
	if replicas == 0 {
		return startStandalone(ctx, cmp.Or(binary, "bin/bursar"), admission, journal)
	}
	return startCluster(ctx, cmp.Or(binary, "bin/bursar-operator"), replicas)
}

// adminOf reaches the API server that keeps its state in a directory as its administrator.
func adminOf(dir string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// ownConnection returns the configuration of a client with a connection of its own.
func ownConnection(shared *rest.Config) *rest.Config {
	config := rest.CopyConfig(shared)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	return config
}

// cpuOf is the processor time that the processes of a system have used.
func cpuOf(s system) time.Duration {
	var used time.Duration
	for _, p := range s.processes() {
		used += p.cpu()
	}
	return used
}

// memoryOf tells the resident memory of the processes of a system.
func memoryOf(s system) string {
	var all []string
	for _, p := range s.processes() {
		now, _ := p.memory()
		all = append(all, fmt.Sprintf("%s %d MiB", p.name, now))
	}
	return "resident: " + strings.Join(all, ", ")
}
