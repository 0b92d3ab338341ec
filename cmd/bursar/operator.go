package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/operator"
)

// endpointsPatience is how long requests that are being answered may take once the operator has ended.
const endpointsPatience = 2 * time.Second

// memoryShare is the share of the memory of its container at which the garbage collector starts to work harder. The
// rest is for what it does not count, and for what is allocated while it works.
const memoryShare = 0.85

func newOperatorCommand() *cobra.Command {
	var configuration, kubeconfig string
	command := &cobra.Command{
		Use:   "operator",
		Short: "Enforce quota on a Kubernetes cluster",
		Long: "Enforce quota on a Kubernetes cluster. Any number of replicas may run: all of them answer the API server, and\n" +
			"one of them runs the controllers.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := config.Load(configuration)
			if err != nil {
				return err
			}
			return runOperator(command.Context(), c, kubeconfig)
		},
	}
	command.Flags().StringVar(&configuration, "config", "", "file with an OperatorConfiguration (default: what its documentation says of each field)")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: that of the Pod that this runs in)")
	return command
}

// runOperator runs the operator and its endpoints until ctx ends.
func runOperator(ctx context.Context, c *config.Operator, kubeconfig string) error {
	api, err := findCluster(kubeconfig)
	if err != nil {
		return err
	}
	api.QPS = -1 // the API server's own priorities decide
	api.UserAgent = "bursar/" + version
	logger := logTo(os.Stderr, c.Logging)
	limitMemory(logger, memlimit.FromCgroup)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	listener, err := net.Listen("tcp", c.Webhooks.BindAddress)
	if err != nil {
		return fmt.Errorf("listen for webhook calls: %w", err)
	}
	o, err := operator.New(optionsOf(c, api, listener, logger))
	if err != nil {
		return err
	}
	endpoints, err := serveEndpoints(c.Endpoints, o)
	if err != nil {
		return err
	}
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := o.Run(working)
		endpoints.stop() // they tell until the end
		return err
	})
	group.Go(endpoints.wait)
	return group.Wait()
}

// limitMemory keeps Go's memory below the limit of its container, unless the user set GOMEMLIMIT. Where there is no
// limit, or none can be found, memory is what Go's own defaults make of it.
func limitMemory(logger logr.Logger, limit memlimit.Provider) {
	bytes, err := memlimit.Set(memlimit.WithProvider(limit), memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		logger.Error(err, "the memory limit of the container cannot be read, so none is minded")
	case bytes != math.MaxInt64:
		logger.Info("memory is kept below its limit", "goMemoryLimitBytes", bytes)
	}
}

// findCluster reads a kubeconfig or, where none is given, what a Pod is told of its cluster.
func findCluster(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %s cannot be used: %w", kubeconfig, err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("this is not a Pod of a cluster: name one with --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("read what this Pod is told of its cluster: %w", err)
	}
	return config, nil
}

// optionsOf are those of the operator by its configuration.
func optionsOf(c *config.Operator, api *rest.Config, listener net.Listener, logger logr.Logger) operator.Options {
	options := operator.Options{
		Config: api, InstallCRDs: c.InstallCRDs, SystemNamespace: c.SystemNamespace, ConsumerNamespaces: c.Namespaces(),
		Webhooks: operator.Webhooks{
			Listener: listener, PeerAddress: peerAddress(listener.Addr()), URL: c.Webhooks.URL, SecretName: c.Webhooks.Certificate.SecretName,
			KeepSecret: c.Webhooks.Certificate.Source == config.SourceBursar, ShutdownDelay: c.Webhooks.ShutdownDelay.Duration,
		},
		LeaderElection: &operator.LeaderElection{
			LeaseDuration: c.LeaderElection.LeaseDuration.Duration, RenewDeadline: c.LeaderElection.RenewDeadline.Duration,
			RetryPeriod: c.LeaderElection.RetryPeriod.Duration,
		},
		AuditInterval: c.AuditInterval.Duration, ControlPlaneInterval: c.ControlPlaneInterval.Duration,
		Metrics: metrics.Registry, Log: logger,
	}
	if s := c.Webhooks.Service; s != nil {
		options.Webhooks.Service = &operator.Service{Name: s.Name, Port: s.Port}
	}
	return options
}

// peerAddress is where other replicas reach a listener: its own address or, if it listens on all, that of the Pod,
// or "" if nothing tells it.
func peerAddress(listening net.Addr) string {
	address, err := netip.ParseAddrPort(listening.String())
	if err != nil {
		return ""
	}
	if !address.Addr().IsUnspecified() {
		return address.String()
	}
	pod, err := netip.ParseAddr(os.Getenv("POD_IP"))
	if err != nil {
		return ""
	}
	return netip.AddrPortFrom(pod, address.Port()).String()
}

// logTo makes all libraries log to a file.
func logTo(file *os.File, l config.Logging) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-l.Verbosity)}
	var handler slog.Handler = slog.NewJSONHandler(file, options)
	if l.Format == config.LogText {
		handler = slog.NewTextHandler(file, options)
	}
	return setLogger(handler)
}

// endpoints are the HTTP servers for whoever runs the operator.
type endpoints struct {
	servers []*http.Server
	group   errgroup.Group
}

// serveEndpoints serves health, readiness and metrics, and profiles where that is asked for.
func serveEndpoints(c config.Endpoints, o *operator.Operator) (*endpoints, error) {
	e := &endpoints{}
	mux := http.NewServeMux()
	mux.Handle("/livez", tell(func() error { return nil }))
	mux.Handle("/readyz", tell(o.Ready))
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

// tell answers that all is well, or what is not.
func tell(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // whoever asked may be gone
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

// stop ends the servers, once they have answered what they were asked.
func (e *endpoints) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), endpointsPatience)
	defer cancel()
	for _, server := range e.servers {
		_ = server.Shutdown(ctx) // whoever still waits is told by the end of the connection
	}
}

// wait returns once all servers have ended, and why if one ended by itself.
func (e *endpoints) wait() error { return e.group.Wait() }
