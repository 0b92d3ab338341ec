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

// system is the system under measurement: a standalone server, or an API server with replicas of the operator.
type system interface {
	// directory holds all stored data.
	directory() string
	// processes are the processes under measurement.
	processes() []process
	// restart ends a process that enforces quota, starts it again, and returns the time from the start until it was
	// ready.
	restart(ctx context.Context) (time.Duration, error)
	// withoutQuota has something done while the API server runs and nothing enforces quota.
	withoutQuota(ctx context.Context, do func() error) error
	// stop ends its processes and removes their data.
	stop()
}

// startSystem starts a standalone server or, if replicas is not zero, so many replicas of the operator on an API
// server. admission and journal are the flags of a standalone server. It returns once the system enforces quota.
func startSystem(ctx context.Context, binary, admission, journal string, replicas int) (system, error) {
	if replicas == 0 {
		return startStandalone(ctx, cmp.Or(binary, "bin/bursar"), admission, journal)
	}
	return startCluster(ctx, cmp.Or(binary, "bin/bursar-operator"), replicas)
}

// adminOf reaches, as its administrator, the API server with its state in a directory.
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

// cpuOf is the CPU time used by the processes of a system.
func cpuOf(s system) time.Duration {
	var used time.Duration
	for _, p := range s.processes() {
		used += p.cpu()
	}
	return used
}

// memoryOf returns the resident memory of the processes of a system.
func memoryOf(s system) string {
	var all []string
	for _, p := range s.processes() {
		now, _ := p.memory()
		all = append(all, fmt.Sprintf("%s %d MiB", p.name, now))
	}
	return "resident: " + strings.Join(all, ", ")
}
