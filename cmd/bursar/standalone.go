package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/controlplane"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/internal/standalone"
)

func newStandaloneCommand() *cobra.Command {
	var o standalone.Options
	var consumerNamespaces []string
	var verbosity int
	command := &cobra.Command{
		Use:   "standalone",
		Short: "Run etcd, a Kubernetes API server and quota enforcement in one process",
		Args:  cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			if command.Flags().Changed("etcd-servers") && len(o.Etcd.Servers) == 0 {
				return errors.New("--etcd-servers is empty: name the URLs of an etcd cluster, or leave it out to use the embedded etcd")
			}
			if length := len(o.ExceededAdvice); length > quotav1alpha1.ExceededAdviceMax {
				return fmt.Errorf("--exceeded-advice has %d bytes: it may have %d", length, quotav1alpha1.ExceededAdviceMax)
			}
			if err := quotav1alpha1.CheckExceededAdvice(o.ExceededAdvice); err != nil {
				return fmt.Errorf("--exceeded-advice: %w", err)
			}
			var err error
			if o.ConsumerNamespaces, err = standalone.ParseConsumerNamespaces(consumerNamespaces); err != nil {
				return err
			}
			return runStandalone(command, o, verbosity)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.DataDir, "data-dir", "", "directory that holds everything that is kept (default: bursar in the user's data directory)")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:7443", "host:port that the API server listens on")
	flags.StringSliceVar(&o.Etcd.Servers, "etcd-servers", nil, "URLs of an etcd cluster to use in place of the embedded etcd")
	flags.StringVar(&o.Etcd.CAFile, "etcd-cafile", "", "certificate authority of the etcd servers")
	flags.StringVar(&o.Etcd.CertFile, "etcd-certfile", "", "client certificate for the etcd servers")
	flags.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", "", "key of the client certificate for the etcd servers")
	flags.StringVar(&o.SystemNamespace, "system-namespace", operator.DefaultSystemNamespace, "namespace of buckets, and of the claims of cluster-scoped objects, that have no other")
	flags.StringVar(&o.ExceededAdvice, "exceeded-advice", "", "what people are told to do where quota is exceeded, with {{name}} for the consumer's name (default: to delete something, or to ask an administrator)")
	flags.StringArrayVar(&consumerNamespaces, "consumer-namespace", nil, "KIND.GROUP=TEMPLATE: namespace of the buckets of consumers of a kind, with {{name}} for the consumer's name; may be repeated")
	flags.IntVarP(&verbosity, "verbosity", "v", 0, "how much is written to the log file, from 0 to 10")
	return command
}

func runStandalone(command *cobra.Command, o standalone.Options, verbosity int) error {
	if o.DataDir == "" {
		var err error
		if o.DataDir, err = standalone.DefaultDataDir(); err != nil {
			return err
		}
	}
	o.Out = command.OutOrStdout()
	logs := &logFile{dir: filepath.Join(o.DataDir, "logs")}
	o.Log = logs.redirect(verbosity)
	// Warnings of the API server to clients inside this process are for nobody to read.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	forget := func() {}
	defer func() { forget() }()
	o.OnServing = func(kubeconfig string) { forget = rememberServer(kubeconfig) }
	o.Metrics = legacyregistry.Registerer()
	server, err := standalone.Start(command.Context(), o)
	if err == nil {
		err = server.Wait()
	}
	if command.Context().Err() != nil {
		fmt.Fprintln(o.Out, "bursar: stopped")
		return nil
	}
	return err
}

// logFile takes in what libraries log. The file appears with the first line, because the data
// directory may not be there yet, or may turn out to be somebody else's.
type logFile struct {
	dir  string
	file io.Writer
}

// redirect makes klog and controller-runtime log to the file.
func (l *logFile) redirect(verbosity int) logr.Logger {
	level := slog.Level(-verbosity)
	return cli.SetLogger(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// Write implements [io.Writer]. Lines that come before the directory exists are dropped.
func (l *logFile) Write(line []byte) (int, error) {
	if l.file == nil {
		if _, err := os.Stat(l.dir); err != nil {
			return len(line), nil
		}
		l.file = controlplane.NewLogFile(filepath.Join(l.dir, "bursar.log"))
	}
	return l.file.Write(line)
}
