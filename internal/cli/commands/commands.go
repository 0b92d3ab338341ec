// Package commands has the commands of Bursar for clients, shared by bursar and the plugin of kubectl. They read flags,
// reach a server and print. The work itself is in packages of its own.
package commands

import (
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli"
)

// All returns the commands for clients. Each call returns new ones.
func All(p cli.Program) []*cobra.Command {
	return []*cobra.Command{
		newUsageCommand(p),
		newTreeCommand(p),
		newWhoCommand(p),
		newWhyCommand(p),
		newPlanCommand(p),
		newRequestCommand(p),
		newRequestsCommand(p),
		newApproveCommand(p),
		newDenyCommand(p),
		newExtendCommand(p),
		newHistoryCommand(p),
		newTopCommand(p),
		newShowbackCommand(p),
		newBacktestCommand(p),
		newPolicyCommand(p),
		newImportCommand(p),
		newExportCommand(p),
		newBackupCommand(p),
		newRestoreCommand(p),
		newStatusCommand(p),
		Console(p),
		newUninstallCommand(p),
	}
}
