package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// newcomersMax bounds the open connections without an authenticated request. An API server sends one right after the
// handshake.
const newcomersMax = 256

// newcomers are the open connections without an authenticated request. Anyone who reaches the port can open many, and
// send nothing or slowly. So beyond the bound, the oldest one is closed.
type newcomers struct {
	mu    sync.Mutex
	order list.List // of net.Conn, the oldest first
	all   map[net.Conn]*list.Element
}

// follow has a server report its connections.
func (n *newcomers) follow(s *http.Server) {
	n.all = map[net.Conn]*list.Element{}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			n.add(c)
		case http.StateClosed, http.StateHijacked:
			n.remove(c)
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, c)
	}
}

type connectionKey struct{}

// admitted returns a handler for authenticated requests. Their connections are no newcomers.
func (n *newcomers) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(net.Conn); ok {
			n.remove(c)
		}
		next.ServeHTTP(w, r)
	})
}

func (n *newcomers) add(c net.Conn) {
	n.mu.Lock()
	n.all[c] = n.order.PushBack(c)
	var oldest net.Conn
	if n.order.Len() > newcomersMax {
		oldest = n.order.Front().Value.(net.Conn)
	}
	n.mu.Unlock()
	if oldest == nil {
		return
	}

	n.remove(oldest)
	if encrypted, ok := oldest.(*tls.Conn); ok {
		oldest = encrypted.NetConn() // without TLS close-notify, which the client could delay
	}
	_ = oldest.Close() // it may be closed already
}

func (n *newcomers) remove(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if element, ok := n.all[c]; ok {
		n.order.Remove(element)
		delete(n.all, c)
	}
}
