// Package cli is what the command lines of Bursar have in common, and the command that both have: the
// operator.
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

// New is the command line of a binary: the given commands, and those that tell its version.
func New(version string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "bursar",
		Short:         "Quota for multi-tenant Kubernetes platforms",
		Long:          "Bursar admits or refuses each resource at the moment it is created, exactly, and explains itself.",
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

// Run does what the arguments of the process say, until it is told to stop, and returns the exit code. A
// second signal ends the process at once.
func Run(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	// What libraries have put here, cobra would add to every command.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bursar:", err)
		return 1
	}
	return 0
}

// SetLogger makes all libraries log to a handler.
func SetLogger(handler slog.Handler) logr.Logger {
	logger := logr.FromSlogHandler(handler)
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	return logger
}
