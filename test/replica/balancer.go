package replica

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// probeInterval is how often the balancer asks replicas whether they are ready, and probeTimeout how
	// long it waits for the answer, which may take a while on a busy machine.
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 3 * time.Second
)

// Balancer stands for the Service of the webhooks: each connection goes to the next replica that is
// ready. It lasts for as long as that one answers probes at all.
type Balancer struct {
	listener net.Listener

	mu       sync.Mutex
	backends []*backend
	next     int
}

// backend is a replica as the balancer sees it.
type backend struct {
	webhooks, health string

	mu    sync.Mutex
	ready bool
	conns map[net.Conn]struct{}
}

// NewBalancer returns a balancer without replicas that listens on a free port, until it is closed.
func NewBalancer() (*Balancer, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, fmt.Errorf("listen for what is to be balanced: %w", err)
	}
	b := &Balancer{listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.forward(conn)
		}
	}()
	return b, nil
}

// Close stops to listen. Connections that there are stay.
func (b *Balancer) Close() { _ = b.listener.Close() }

// URL is where the replicas are reached.
func (b *Balancer) URL() string {
	return fmt.Sprintf("https://localhost:%d", b.listener.Addr().(*net.TCPAddr).Port)
}

// add begins to probe a replica. Once ctx ends it gets no more connections.
func (b *Balancer) add(ctx context.Context, webhooks, health string) *backend {
	replica := &backend{webhooks: webhooks, health: health, conns: map[net.Conn]struct{}{}}
	b.mu.Lock()
	b.backends = append(b.backends, replica)
	b.mu.Unlock()
	go func() {
		client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
		ticker := time.NewTicker(probeInterval)
		defer ticker.Stop()
		for ctx.Err() == nil {
			response, err := client.Get("http://" + health + "/readyz")
			if err == nil {
				_ = response.Body.Close()
			}
			replica.set(err == nil && response.StatusCode == http.StatusOK, err == nil)
			<-ticker.C
		}
		replica.set(false, false)
	}()
	return replica
}

// set notes whether a replica is ready, and cuts it off if it does not answer.
func (r *backend) set(ready, answers bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = ready
	if !answers {
		for conn := range r.conns {
			_ = conn.Close()
		}
	}
}

// IsReady tells whether the last probe found it ready.
func (r *backend) IsReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// pick returns the next replica that is ready, or nil.
func (b *Balancer) pick() *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.next = (b.next + 1) % len(b.backends)
		if b.backends[b.next].IsReady() {
			return b.backends[b.next]
		}
	}
	return nil
}

func (b *Balancer) forward(from net.Conn) {
	defer from.Close() //nolint:errcheck // it is over
	replica := b.pick()
	if replica == nil {
		return
	}
	to, err := net.DialTimeout("tcp", replica.webhooks, probeTimeout)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // it is over
	for _, conn := range []net.Conn{from, to} {
		replica.mu.Lock()
		replica.conns[conn] = struct{}{}
		replica.mu.Unlock()
		defer func() {
			replica.mu.Lock()
			delete(replica.conns, conn)
			replica.mu.Unlock()
		}()
	}
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}
