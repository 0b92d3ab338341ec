// Command bursar is the server and, as `bursar kubectl`, its own client. It is the operator, too.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
)

// version is set when the binary is built.
var version = "unknown"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Exit(runKubectl(os.Args[1:]))
	}
	os.Exit(cli.Run(cli.New(version, newStandaloneCommand(), cli.Operator(version), newUsageCommand(), newWhyCommand(), newHistoryCommand(), newTopCommand(), newShowbackCommand(), newBacktestCommand(), newExtendCommand(), newRequestCommand(), newRequestsCommand(), newApproveCommand(), newDenyCommand(), newPlanCommand(), newPolicyCommand(), newStatusCommand(), newUserCommand(), newUninstallCommand(), &cobra.Command{
		Use:                "kubectl",
		Short:              "kubectl itself, pointed at the running server",
		DisableFlagParsing: true,
		ValidArgsFunction:  completeKubectl,
	})))
}
