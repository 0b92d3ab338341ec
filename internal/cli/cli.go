// Package cli has the common parts of Bursar's command lines, and the command in both: the operator. Only the binaries
// in cmd import it.
package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// New returns the command line of a binary: the given commands, and those for its version.
func New(version string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "bursar",
		Short:         "Quota for multi-tenant Kubernetes platforms",
		Long:          "Bursar admits or denies each resource at the moment it is created, exactly, and explains itself.",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(explainFlagError)
	root.AddCommand(commands...)
	root.AddCommand(newVersionCommand(version))
	return root
}

// Run runs the command in the process's arguments until a signal, and returns the exit code. A second signal ends the
// process at once.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	// cobra would add the flags of libraries to every command.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
	command, err := root.ExecuteContextC(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bursar:", err)
	}
	return exitCode(command, err)
}

// SetLogger makes all libraries log to a handler.
func SetLogger(handler slog.Handler) logr.Logger {
	logger := logr.FromSlogHandler(handler)
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	return logger
}
