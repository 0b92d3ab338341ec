package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// pluginCompletion is the file that kubectl runs to complete the plugin's arguments.
const pluginCompletion = "kubectl_complete-bursar"

// newPluginCompletionCommand returns the command to print the completion file for kubectl. cobra's own scripts complete
// a command of one word.
func newPluginCompletionCommand(p Program) *cobra.Command {
	return &cobra.Command{
		Use:   "completion",
		Short: "Print the file for kubectl to complete the plugin",
		Long: `Print the file for kubectl to complete the plugin's commands, flags and values. Save it as ` + pluginCompletion + ` in a
folder of PATH. The completion of kubectl itself must be on, too: see kubectl completion --help.`,
		Example: `  # On Linux and macOS
  kubectl bursar completion > ~/.local/bin/` + pluginCompletion + `
  chmod +x ~/.local/bin/` + pluginCompletion,
		Args: NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "#!/bin/sh\nexec %s __complete \"$@\"\n", p.Name)
			return err
		},
	}
}
