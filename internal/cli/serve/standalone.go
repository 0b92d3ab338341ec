// Package serve declares the commands of the binary with an API server, without that server: the reference of commands
// describes them, too. The binary passes the functions to run.
package serve

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/standalone/flags"
)

// Standalone returns the command for a standalone server. It calls run with its flags, not completed yet.
func Standalone(run func(*cobra.Command, *flags.Standalone) error) *cobra.Command {
	given := &flags.Standalone{}
	command := &cobra.Command{
		Use:   "standalone",
		Short: "Run etcd, a Kubernetes API server and quota enforcement in one process",
		Example: `  bursar standalone
  # In a folder, reachable by others
  bursar standalone --data-dir data --listen 0.0.0.0:7443`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error { return run(command, given) },
	}
	given.Add(command.Flags())
	return command
}
