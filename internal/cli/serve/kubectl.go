package serve

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds the wait after the tab key.
const completionTimeout = 3 * time.Second

// Kubectl returns the command that stands for kubectl in the help, and completes it.
func Kubectl() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "kubectl itself, pointed at the running server",
		Example:            `  bursar kubectl get resourcegrants -A`,
		DisableFlagParsing: true,
		ValidArgsFunction:  completeKubectl,
	}
}

// completeKubectl makes kubectl complete its own arguments.
func completeKubectl(command *cobra.Command, arguments []string, begun string) ([]string, cobra.ShellCompDirective) {
	self, err := os.Executable()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx := command.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	words := append(append([]string{"kubectl", "__complete"}, arguments...), begun)
	output, err := exec.CommandContext(ctx, self, words...).Output()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
}
