// Package operate has the command to run the operator. Only the binaries of servers import it.
package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the auth-providers in kubeconfigs
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/gctuner"
	"github.com/bursar/bursar/internal/operator"
)

// heapTuner keeps Go's default for a small heap, and a smaller percentage for a large one: a replica keeps much and
// allocates little.
var heapTuner = gctuner.Tuner{Headroom: 64 << 20, PercentMin: 25, PercentMax: 100}

// Command returns the command to run the operator, for a binary of the given version.
func Command(version string) *cobra.Command {
	var configuration, kubeconfig string
	command := &cobra.Command{
		Use:   "operator",
		Short: "Enforce quota on a Kubernetes cluster",
		Long: "Enforce quota on a Kubernetes cluster. Any number of replicas may run: all of them answer the API server, and\n" +
			"one of them runs the controllers.",
		Example: `  bursar operator --config operator.yaml`,
		Args:    cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := config.Load(configuration)
			if err != nil {
				return err
			}
			return runOperator(command.Context(), c, kubeconfig, version)
		},
	}
	command.Flags().StringVar(&configuration, "config", "", "file with an OperatorConfiguration (default: the documented default of each field)")
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: its own Pod's)")
	return command
}

// runOperator runs the operator and its endpoints until ctx ends.
func runOperator(ctx context.Context, c *config.Operator, kubeconfig, version string) error {
	api, err := findCluster(kubeconfig)
	if err != nil {
		return err
	}
	api.QPS = -1 // the API server's priority and fairness decides
	api.UserAgent = "bursar/" + version
	if err := rejectStandalone(ctx, api); err != nil {
		return err
	}
	logger := logTo(os.Stderr, c.Logging)
	heapTuner.Start()
	gctuner.LimitMemory(logger, memlimit.FromCgroup)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	listener, err := net.Listen("tcp", c.Webhooks.BindAddress)
	if err != nil {
		return fmt.Errorf("listen for webhook calls: %w", err)
	}
	options := optionsOf(c, api, listener, logger)
	if options.Webhooks.ClientCertificates, err = clientCertificates(c.Webhooks.ClientCertificates); err != nil {
		return err
	}
	o, err := operator.New(options)
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
		endpoints.stop() // they report until the end
		return err
	})
	group.Go(endpoints.wait)
	return group.Wait()
}

// findCluster reads a kubeconfig or, without one, the Pod's own cluster configuration.
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
		return nil, errors.New("this process does not run in a Pod: name a cluster with --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster configuration of this Pod: %w", err)
	}
	return config, nil
}

// standaloneTimeout bounds the check for a standalone Bursar.
const standaloneTimeout = 5 * time.Second

// rejectStandalone returns an error if the API server is a standalone Bursar's: two leaders would enforce the same
// quota. An API server without an answer counts as a cluster's.
func rejectStandalone(ctx context.Context, api *rest.Config) error {
	clients, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return fmt.Errorf("make a client for the API server at %s: %w", api.Host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, standaloneTimeout)
	defer cancel()
	var status int
	clients.RESTClient().Get().AbsPath("/readyz/" + operator.StandaloneCheck).Do(ctx).StatusCode(&status)
	if status == http.StatusOK || status == http.StatusInternalServerError { // it passes, or fails
		return fmt.Errorf("the API server at %s is a standalone Bursar, and enforces quota itself; name another cluster with --kubeconfig", api.Host)
	}
	return nil
}

// optionsOf returns the operator's options from its configuration.
func optionsOf(c *config.Operator, api *rest.Config, listener net.Listener, logger logr.Logger) operator.Options {
	options := operator.Options{
		Quota: c.Quota, Config: api, InstallCRDs: c.InstallCRDs,
		Webhooks: server.Options{
			Listener: listener, PeerAddress: peerAddress(listener.Addr()), URL: c.Webhooks.URL, SecretName: c.Webhooks.Certificate.SecretName,
			ManageSecret: c.Webhooks.Certificate.Source == config.SourceBursar, ShutdownDelay: c.Webhooks.ShutdownDelay.Duration,
		},
		LeaderElection: &operator.LeaderElection{
			LeaseDuration: c.LeaderElection.LeaseDuration.Duration, RenewDeadline: c.LeaderElection.RenewDeadline.Duration,
			RetryPeriod: c.LeaderElection.RetryPeriod.Duration,
		},
		Metrics: metrics.Registry, Log: logger,
	}
	if s := c.Webhooks.Service; s != nil {
		options.Webhooks.Service = &server.Service{Name: s.Name, Port: s.Port}
	}
	return options
}

// clientCertificates reads the verification of the API server's client certificate.
func clientCertificates(c *config.ClientCertificates) (access.ClientCertificates, error) {
	if c == nil {
		return access.ClientCertificates{}, nil
	}
	content, err := os.ReadFile(c.CAFile)
	if err != nil {
		return access.ClientCertificates{}, fmt.Errorf("webhooks.clientCertificates.caFile: %w", err)
	}
	authorities, err := access.ParseAuthorities(content)
	if err != nil {
		return access.ClientCertificates{}, fmt.Errorf("webhooks.clientCertificates.caFile: %s: %w", c.CAFile, err)
	}
	return access.ClientCertificates{Authorities: authorities, Names: c.Names}, nil
}

// peerAddress returns the address of a listener for other replicas. It is the listener's own address or, if it listens
// on all, the address of the Pod. It is "" if this is unknown.
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
	return SetLogger(handler)
}

// SetLogger makes all libraries log to a handler.
func SetLogger(handler slog.Handler) logr.Logger {
	logger := logr.FromSlogHandler(handler)
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	return logger
}
