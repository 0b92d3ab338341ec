// Package apiclient connects to one or several API servers, even slow or stopped ones: with timeouts for every request,
// health checks on watches, and the clock of the server. Like all of kube it knows no quota, and any internal package
// may import it.
package apiclient

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// connectionsMax is how many idle connections to the API server are kept: more than the number of concurrent writers.
const connectionsMax = 128

// Timeouts bound the wait for an unresponsive API server.
type Timeouts struct {
	// Read and Write bound one request with its answer. By default an API server ends reads after 60 s and writes after
	// 34 s. Watches have no such bound.
	Read, Write time.Duration
	// Unacknowledged bounds the time without an acknowledgment from the other side of a connection.
	Unacknowledged time.Duration
	// PingAfter is how long a watch may be silent before a ping. The watch ends without an answer within Ping.
	PingAfter, Ping time.Duration
}

// DefaultTimeouts are for production.
var DefaultTimeouts = Timeouts{
	Read: 70 * time.Second, Write: 40 * time.Second, Unacknowledged: 30 * time.Second, PingAfter: 30 * time.Second, Ping: 15 * time.Second,
}

// dial returns the dialer of a configuration, or one whose connections end soon after the other side has vanished.
func (t Timeouts) dial(config *rest.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	if config.Dial != nil {
		return config.Dial
	}
	dialer := &net.Dialer{
		Timeout:         30 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: t.Unacknowledged / 2, Interval: t.Unacknowledged / 6, Count: 3},
		Control:         boundUnacknowledged(t.Unacknowledged),
	}
	return dialer.DialContext
}

// NewHTTPClient returns the HTTP client for the writes of every create. It uses HTTP/1.1: many small requests cost both
// sides less there than as streams of one connection. Watches use HTTP/2 if the API server supports it: only there can
// a client ping. The clock learns from the answers.
func NewHTTPClient(config *rest.Config, t Timeouts, clock *Clock) (*http.Client, error) {
	requests, err := newTransport(config, t, "http/1.1")
	if err != nil {
		return nil, err
	}
	watches, err := newTransport(config, t, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	watches.ForceAttemptHTTP2 = true
	watches.HTTP2 = &http.HTTP2Config{SendPingTimeout: t.PingAfter, PingTimeout: t.Ping}
	transport, err := rest.HTTPWrappersForConfig(config, &transport{Timeouts: t, requests: requests, watches: watches, clock: clock})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, Timeout: config.Timeout}, nil
}

// newTransport returns a transport for the protocols.
func newTransport(config *rest.Config, t Timeouts, protocols ...string) (*http.Transport, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the TLS configuration: %w", err)
	}
	if tls != nil {
		tls = tls.Clone()
		tls.NextProtos = protocols
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         t.dial(config),
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: connectionsMax,
		IdleConnTimeout:     90 * time.Second,
	}, nil
}

// WithTimeouts returns a configuration for clients with these timeouts. client-go makes them use HTTP/2, with pings.
func WithTimeouts(config *rest.Config, t Timeouts) *rest.Config {
	config = rest.CopyConfig(config)
	config.Dial = t.dial(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{Timeouts: t, requests: next, watches: next, clock: &Clock{}}
	})
	return config
}

// transport sets a deadline for each request except watches.
type transport struct {
	Timeouts
	requests, watches http.RoundTripper
	clock             *Clock
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if isWatch(request) {
		return t.watches.RoundTrip(request)
	}
	timeout := t.Write
	if request.Method == http.MethodGet {
		timeout = t.Read
	}
	ctx, cancel := context.WithTimeoutCause(request.Context(), timeout, timeoutError{timeout})
	sent := time.Now()
	response, err := t.requests.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	t.clock.observe(sent, response)
	response.Body = &body{ReadCloser: response.Body, cancel: cancel}
	return response, nil
}

// isWatch reports whether a request is a watch. The answer of a watch has no end.
func isWatch(request *http.Request) bool {
	switch request.URL.Query().Get("watch") {
	case "", "0", "false":
		return false
	default:
		return true
	}
}

// timeoutError means that the API server did not answer a request in time. It may have executed the request.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string {
	return fmt.Sprintf("the API server has not answered within %s", e.after)
}

// Timeout and Temporary implement [net.Error].
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// body ends the deadline of a request together with its answer.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements [io.Closer].
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
