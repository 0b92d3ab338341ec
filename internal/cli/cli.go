// Package cli has the common parts of Bursar's command lines. Only the binaries in cmd and packages of commands import
// it. It links no server and no operator, so the plugin of kubectl stays small.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/claims/message"
)

// New returns the command line of a program: the given commands, and those for its version.
func New(p Program, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           p.file(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: p.Name},
		Short:         "Quota for multi-tenant Kubernetes platforms",
		Long:          "Bursar admits or denies each resource at the moment it is created, exactly, and explains itself.",
		Version:       p.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(explainFlagError)
	root.AddCommand(commands...)
	root.AddCommand(newVersionCommand(p.Version))
	if p.IsPlugin() {
		root.CompletionOptions.DisableDefaultCmd = true // its scripts would complete kubectl-bursar
		root.AddCommand(newPluginCompletionCommand(p))
	}
	explainExitCodes(root)
	rename(root)
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
		fmt.Fprintf(os.Stderr, "%s: %s\n", root.DisplayName(), Words(root, message.Clean(inOneLine(err.Error()))))
	}
	return exitCode(command, err)
}
