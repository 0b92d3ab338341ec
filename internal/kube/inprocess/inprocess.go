// Package inprocess answers HTTP requests by a handler of the same process. A standalone server calls its own webhooks
// this way: a call needs no connection, no TLS, no second parse of HTTP and no proof of the caller. Packages standalone
// and server use it.
package inprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/waitgroup"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// Server passes the requests to one host to a handler of this process. A nil Server passes none. It is safe for
// concurrent use.
type Server struct {
	host    string
	current atomic.Pointer[handling]
}

// New returns a server for a host, as it is in the URLs of requests. No request to this host ever goes over the
// network. Without a handler, it fails.
func New(host string) *Server { return &Server{host: host} }

// handling is a handler while it answers requests.
type handling struct {
	handler http.Handler
	log     logr.Logger
	// open are the requests in progress.
	open waitgroup.SafeWaitGroup
}

// Handle has handler answer requests until Shutdown. log receives the panics of the handler. Requests arrive without
// TLS, so a handler cannot see a client certificate.
func (s *Server) Handle(handler http.Handler, log logr.Logger) {
	if s == nil {
		return
	}
	s.current.Store(&handling{handler: handler, log: log})
}

// Shutdown fails new requests, and waits for those in progress, or until ctx ends. The handler then still runs.
func (s *Server) Shutdown(ctx context.Context) {
	if s == nil {
		return
	}
	h := s.current.Swap(nil)
	if h == nil {
		return
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		h.open.Wait()
	}()
	select {
	case <-finished:
	case <-ctx.Done():
	}
}

// Transport returns a transport that passes requests to the server's host to the handler, and all others to next.
func (s *Server) Transport(next http.RoundTripper) http.RoundTripper {
	if s == nil {
		return next
	}
	return &transport{s, next}
}

type transport struct {
	server *Server
	next   http.RoundTripper
}

var (
	// errPanicked leaves out the value of the panic, as it means nothing to the caller.
	errPanicked = errors.New("the handler panicked")
	errNone     = errors.New("the handler in this process has not started, or has stopped; try again")
)

// RoundTrip implements [http.RoundTripper]. Like a request over the network, one to the handler fails once its context
// ends, even if the handler ignores the end, and if the handler panics.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != t.server.host {
		return t.next.RoundTrip(r)
	}
	h := t.server.current.Load()
	if h == nil || h.open.Add(1) != nil {
		return nil, errNone
	}
	type outcome struct {
		response *http.Response
		err      error
	}
	done := make(chan outcome, 1)
	go func() {
		defer h.open.Done()
		response, err := h.serve(r)
		done <- outcome{response, err}
	}()
	select {
	case o := <-done:
		return o.response, o.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (h *handling) serve(r *http.Request) (response *http.Response, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			h.log.Error(fmt.Errorf("panic: %v", panicked), "a request was not answered", "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	// As behind a connection, the handler learns only that the caller has gone, and knows nothing else of its context.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	received := r.WithContext(ctx)
	received.Host, received.RequestURI = r.URL.Host, r.URL.RequestURI()
	if received.Body == nil {
		received.Body = http.NoBody
	}
	defer received.Body.Close() //nolint:errcheck // it was sent from memory
	answer := responsewriter.NewInMemoryResponseWriter()
	h.handler.ServeHTTP(answer, received)
	code := answer.RespCode()
	if code == 0 {
		code = http.StatusOK
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header(), Body: io.NopCloser(bytes.NewReader(answer.Data())), ContentLength: int64(len(answer.Data())),
		Request: r,
	}, nil
}
