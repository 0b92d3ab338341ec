package replica

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// probeInterval is the time between two probes of replicas, and probeTimeout the timeout of a probe. An answer may
	// take a while on a busy machine.
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 3 * time.Second
)

// Balancer stands for a Service, such as that of the webhooks: each connection goes to the next ready server. It lasts
// for as long as this server answers probes at all.
type Balancer struct {
	listener net.Listener
	// probing ends with Close.
	probing context.Context
	end     context.CancelFunc

	mu       sync.Mutex
	backends []*backend
	next     int
}

// backend is a server as the balancer sees it.
type backend struct {
	address string

	mu    sync.Mutex
	ready bool
	conns map[net.Conn]struct{}
}

// NewBalancer returns a balancer without servers. It listens on a free port until Close.
func NewBalancer() (*Balancer, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, fmt.Errorf("listen for what is to be balanced: %w", err)
	}
	b := &Balancer{listener: listener}
	b.probing, b.end = context.WithCancel(context.Background())
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

// Close stops listening. Existing connections to replicas stay.
func (b *Balancer) Close() {
	b.end()
	_ = b.listener.Close()
}

// URL is the address of the servers.
func (b *Balancer) URL() string {
	return fmt.Sprintf("https://localhost:%d", b.listener.Addr().(*net.TCPAddr).Port)
}

// Add adds a server at an address until Close. The probe returns nil if the server is ready, or why not.
func (b *Balancer) Add(address string, probe func(context.Context) error) {
	b.add(b.probing, address, func(ctx context.Context) (ready, answers bool) { return probe(ctx) == nil, true })
}

// Cut closes all existing connections. Clients may make new ones at once.
func (b *Balancer) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, backend := range b.backends {
		backend.set(backend.IsReady(), false)
	}
}

// add begins to probe a server. Once ctx ends it gets no more connections.
func (b *Balancer) add(ctx context.Context, address string, probe func(context.Context) (ready, answers bool)) *backend {
	added := &backend{address: address, conns: map[net.Conn]struct{}{}}
	b.mu.Lock()
	b.backends = append(b.backends, added)
	b.mu.Unlock()
	go func() {
		ticker := time.NewTicker(probeInterval)
		defer ticker.Stop()
		for ctx.Err() == nil {
			probing, cancel := context.WithTimeout(ctx, probeTimeout)
			added.set(probe(probing))
			cancel()
			<-ticker.C
		}
		added.set(false, false)
	}()
	return added
}

// set notes whether a server is ready, and cuts it off if it does not answer.
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

// IsReady reports whether the last probe found it ready.
func (r *backend) IsReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// pick returns the next ready server, or nil.
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
	server := b.pick()
	if server == nil {
		return
	}
	to, err := net.DialTimeout("tcp", server.address, probeTimeout)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // it is over
	for _, conn := range []net.Conn{from, to} {
		server.mu.Lock()
		server.conns[conn] = struct{}{}
		server.mu.Unlock()
		defer func() {
			server.mu.Lock()
			delete(server.conns, conn)
			server.mu.Unlock()
		}()
	}
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}
