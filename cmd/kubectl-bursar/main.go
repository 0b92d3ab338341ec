// Command kubectl-bursar is the plugin of kubectl: the commands of bursar for clients, in a binary without any server.
package main

import (
	"os"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/commands"
)

// The build sets version.
var version = "unknown"

func main() {
	p := cli.Plugin(version)
	os.Exit(cli.Run(cli.New(p, commands.All(p)...)))
}
