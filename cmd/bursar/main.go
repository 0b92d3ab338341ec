// Command bursar is the server and, as `bursar kubectl`, its own client. It is the operator, too. Under the name
// kubectl-bursar it is the plugin of kubectl.
package main

import (
	"os"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/commands"
	"github.com/bursar/bursar/internal/cli/operate"
	"github.com/bursar/bursar/internal/cli/serve"
)

// The build sets version.
var version = "unknown"

func main() {
	p := cli.ProgramOf(os.Args[0], version)
	all := commands.All(p)
	if !p.IsPlugin() {
		if len(os.Args) > 1 && os.Args[1] == "kubectl" {
			os.Exit(runKubectl(p, os.Args[1:]))
		}
		all = append(all, serve.Standalone(startStandalone), operate.Command(version), commands.User(p), serve.Kubectl())
	}
	os.Exit(cli.Run(cli.New(p, all...)))
}
