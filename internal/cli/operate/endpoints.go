package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/operator"
)

// endpointsTimeout is how long open requests may take once the operator has ended.
const endpointsTimeout = 2 * time.Second

// endpoints are the HTTP servers for operations.
type endpoints struct {
	servers []*http.Server
	group   errgroup.Group
}

// serveEndpoints serves health, readiness and metrics, and profiles if configured.
func serveEndpoints(c config.Endpoints, o *operator.Operator) (*endpoints, error) {
	e := &endpoints{}
	mux := http.NewServeMux()
	mux.Handle("/livez", checkHandler(func() error { return nil }))
	mux.Handle("/readyz", checkHandler(o.Ready))
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	if err := e.serve(c.BindAddress, mux); err != nil {
		return nil, fmt.Errorf("listen for endpoints.bindAddress: %w", err)
	}
	if c.ProfilingBindAddress == "" {
		return e, nil
	}
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	if err := e.serve(c.ProfilingBindAddress, profiles); err != nil {
		return nil, fmt.Errorf("listen for endpoints.profilingBindAddress: %w", err)
	}
	return e, nil
}

// checkHandler answers with ok, or with the error of the check.
func checkHandler(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // the client may have left
	})
}

func (e *endpoints) serve(address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	e.servers = append(e.servers, server)
	e.group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", address, err)
		}
		return nil
	})
	return nil
}

// stop ends the servers after their open requests.
func (e *endpoints) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), endpointsTimeout)
	defer cancel()
	for _, server := range e.servers {
		_ = server.Shutdown(ctx) // the end of the connection informs waiting clients
	}
}

// wait returns once all servers have ended, with the error of a failed one.
func (e *endpoints) wait() error { return e.group.Wait() }
