// Command bursar-operator is `bursar operator` and `bursar console serve` in a smaller binary, without the API server
// and etcd of `bursar standalone`. The container image holds it.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/operate"
	"github.com/bursar/bursar/internal/cli/serveconsole"
)

// The build sets version.
var version = "unknown"

func main() {
	p := cli.Program{Name: "bursar", Version: version}
	console := &cobra.Command{Use: "console", Short: "Run the web console", Args: cli.NoArguments(""), RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	console.AddCommand(serveconsole.Command(p))
	os.Exit(cli.Run(cli.New(p, operate.Command(version), console)))
}
