// Command bursar-operator is `bursar operator` and `bursar console` in a binary of less than half the size, without the API server and the
// etcd that `bursar standalone` embeds. The container image holds it.
package main

import (
	"os"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/commands"
	"github.com/bursar/bursar/internal/cli/operate"
)

// version is set when the binary is built.
var version = "unknown"

func main() {
	p := cli.Program{Name: "bursar", Version: version}
	os.Exit(cli.Run(cli.New(p, operate.Command(version), commands.Console(p))))
}
