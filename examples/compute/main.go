// Command compute is a compute service that claims quota from Bursar for its machines.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bursar/bursar/examples/compute/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compute:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var kubeconfig string
	var o service.Options
	command := &cobra.Command{
		Use:   "compute",
		Short: "A compute service that takes quota from Bursar for its machines",
		Long: "A compute service that takes quota from Bursar for its machines: you can always create an Instance, and the service\n" +
			"makes its machine once the paying Project has the quota for it.",
		Args:          cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := configOf(kubeconfig)
			if err != nil {
				return err
			}
			config.QPS = -1 // the API server's own priorities decide
			config.UserAgent = "compute"
			o.Config, o.Log = config, logTo(os.Stderr)
			return service.Run(command.Context(), o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the API server (default: KUBECONFIG, else that of its own Pod)")
	flags.StringVar(&o.Provider, "provider", service.ProviderAuto, "the kind of machines: pods, simulated (there are none), or auto (pods if the API server has nodes, else simulated)")
	flags.StringVar(&o.GPU, "gpu-resource", "nvidia.com/gpu", "resource of nodes that counts their GPUs")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the leader election among several replicas (default: no election, for one replica)")
	flags.StringVar(&o.MetricsAddress, "metrics-address", "", "host:port to serve metrics on (default: none)")
	return command
}

// configOf returns the configuration for the API server.
func configOf(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no API server is named: set KUBECONFIG or --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return config, nil
}

// logTo makes all libraries log to a file.
func logTo(file *os.File) logr.Logger {
	log := logr.FromSlogHandler(slog.NewTextHandler(file, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log
}
