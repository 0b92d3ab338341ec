// Command bursar is the server and, as `bursar kubectl`, its own client.
package main

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

// version is set when the binary is built.
var version = "unknown"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Exit(runKubectl(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	// What libraries have put here, cobra would add to every command.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bursar:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "bursar",
		Short:         "Quota for multi-tenant Kubernetes platforms",
		Long:          "Bursar admits or refuses each resource at the moment it is created, exactly, and explains itself.",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.SetVersionTemplate("{{.Version}}\n")
	command.AddCommand(newStandaloneCommand(), newOperatorCommand(), newVersionCommand(), &cobra.Command{
		Use:                "kubectl",
		Short:              "kubectl itself, pointed at the running server",
		DisableFlagParsing: true,
	})
	return command
}

// setLogger makes all libraries log to a handler.
func setLogger(handler slog.Handler) logr.Logger {
	logger := logr.FromSlogHandler(handler)
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	return logger
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(command *cobra.Command, _ []string) { fmt.Fprintln(command.OutOrStdout(), version) },
	}
}
