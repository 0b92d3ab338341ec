package controlplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Outcome is the outcome of a request.
type Outcome int

// Outcomes of a request.
const (
	// Answered requests take effect and get an answer.
	Answered Outcome = iota
	// Lost requests fail and never take effect.
	Lost
	// Unanswered requests take effect, and fail for the client.
	Unanswered
	// Late requests fail, and take effect afterwards.
	Late
)

// Fate is the fate of a request, with its times.
type Fate struct {
	Server  *Server
	Outcome Outcome
	// Before and After are the times until the request arrives and until its answer does. Delay is the further delay of
	// a late request.
	Before, After, Delay time.Duration
}

// Network decides on requests.
type Network interface {
	// FateOf decides the fate of a request.
	FateOf(r *http.Request) Fate
}

// Connection is how one process reaches the API servers. It implements [http.RoundTripper].
type Connection struct {
	network Network
	// ended ends with the process.
	ended context.Context
	gate  *Gate
}

// Connect returns the connection of a process that lives as long as ctx. While the gate is shut, its requests and
// watches stand still.
func Connect(ctx context.Context, network Network, gate *Gate) *Connection {
	return &Connection{network: network, ended: ctx, gate: gate}
}

var (
	errLost    = errors.New("the connection was reset")
	errRefused = errors.New("the connection was refused")
	errEnded   = errors.New("this process has ended")
)

// RoundTrip implements [http.RoundTripper].
func (c *Connection) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	ctx, stop := context.WithCancelCause(r.Context())
	defer context.AfterFunc(c.ended, func() { stop(errEnded) })()
	fate := c.network.FateOf(r)
	if err := errors.Join(c.gate.Wait(ctx), sleep(ctx, fate.Before)); err != nil {
		return nil, context.Cause(ctx)
	}
	if fate.Server.IsDown() {
		return nil, errRefused
	}
	parsed := parse(r.WithContext(ctx), body)
	if r.URL.Query().Has("watch") {
		if fate.Outcome != Answered {
			return nil, errLost
		}
		response := fate.Server.watch(parsed)
		response.Body = &gated{response.Body, ctx, c.gate, stop}
		return response, nil
	}
	defer stop(nil)
	return c.execute(ctx, parsed, fate)
}

// execute executes a request as its fate is.
func (c *Connection) execute(ctx context.Context, r *request, fate Fate) (*http.Response, error) {
	switch fate.Outcome {
	case Lost:
		return nil, errLost
	case Late:
		time.AfterFunc(fate.Delay, func() { fate.Server.serve(r) })
		return nil, errLost
	}
	response := fate.Server.serve(r)
	if err := errors.Join(sleep(ctx, fate.After), c.gate.Wait(ctx)); err != nil {
		return nil, context.Cause(ctx)
	}
	if fate.Outcome == Unanswered {
		return nil, errLost
	}
	return response, nil
}

// sleep waits, or returns an error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gated is the body of a watch. It stands still while a gate is shut.
type gated struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // the one of the request
	gate *Gate
	stop context.CancelCauseFunc
}

func (g *gated) Read(into []byte) (int, error) {
	if err := g.gate.Wait(g.ctx); err != nil {
		return 0, err
	}
	return g.ReadCloser.Read(into)
}

func (g *gated) Close() error {
	g.stop(nil)
	return g.ReadCloser.Close()
}
