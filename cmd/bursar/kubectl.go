package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubernetescli "k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/servers"
)

// runKubectl runs kubectl with the given arguments, beginning with its name, and returns its exit code.
func runKubectl(p cli.Program, arguments []string) int {
	if os.Getenv("KUBECONFIG") == "" && !namesServer(arguments) && needsServer(arguments) {
		kubeconfig, err := servers.FindKubeconfig(p, intentOf(arguments[1:]))
		if err == nil {
			err = os.Setenv("KUBECONFIG", kubeconfig)
		}
		if err == nil && arguments[1] != "config" {
			err = servers.CheckAnswers(kubeconfig)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, p.Name+":", err)
			return 1
		}
	}
	os.Args = arguments
	command := cmd.NewDefaultKubectlCommand()
	if err := kubernetescli.RunNoErrOutput(command); err != nil {
		cmdutil.CheckErr(err) // it exits with kubectl's own code
	}
	return 0
}

// namesServer reports whether the arguments name a server.
func namesServer(arguments []string) bool {
	return slices.ContainsFunc(arguments, func(argument string) bool {
		name, _, _ := strings.Cut(argument, "=")
		return name == "--kubeconfig" || name == "--server" || name == "-s"
	})
}

// readCommands are the read-only commands of kubectl, by their paths.
var readCommands = []string{
	"api-resources", "api-versions", "auth can-i", "auth whoami", "cluster-info", "config", "describe", "diff", "events", "explain", "get",
	"logs", "rollout history", "rollout status", "top", "version", "wait", "__complete", "__completeNoDesc",
}

// intentOf returns whether kubectl reads or writes with these arguments. An unknown command counts as a write.
func intentOf(arguments []string) servers.Intent {
	if strings.HasPrefix(arguments[0], "__complete") {
		return servers.Reads
	}
	streams := genericiooptions.NewTestIOStreamsDiscard()
	kubectl := cmd.NewKubectlCommand(cmd.KubectlOptions{ConfigFlags: genericclioptions.NewConfigFlags(true), IOStreams: streams})
	command, _, err := kubectl.Find(arguments)
	if err != nil {
		return servers.Writes
	}
	path := strings.TrimPrefix(command.CommandPath(), kubectl.Name()+" ")
	for _, read := range readCommands {
		if path == read || strings.HasPrefix(path, read+" ") {
			return servers.Reads
		}
	}
	return servers.Writes
}

// needsServer reports whether the arguments ask for more than help.
func needsServer(arguments []string) bool {
	if len(arguments) < 2 || slices.Contains(arguments, "--help") || slices.Contains(arguments, "-h") {
		return false
	}
	return !slices.Contains([]string{"help", "completion", "kustomize", "options", "plugin"}, arguments[1])
}
