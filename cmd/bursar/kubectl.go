package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// answerTimeout is how long a server may take to answer.
const answerTimeout = 10 * time.Second

// runKubectl runs kubectl with the given arguments, the first of which is its name, and returns its exit code.
func runKubectl(arguments []string) int {
	if os.Getenv("KUBECONFIG") == "" && !namesServer(arguments) && needsServer(arguments) {
		kubeconfig, err := findKubeconfig(intentOf(arguments[1:]))
		if err == nil {
			err = os.Setenv("KUBECONFIG", kubeconfig)
		}
		if err == nil && arguments[1] != "config" {
			err = checkAnswers(kubeconfig)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bursar:", err)
			return 1
		}
	}
	os.Args = arguments
	command := cmd.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
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

// readCommands are the commands of kubectl that change nothing, by their paths.
var readCommands = []string{
	"api-resources", "api-versions", "auth can-i", "auth whoami", "cluster-info", "config", "describe", "diff", "events", "explain", "get",
	"logs", "rollout history", "rollout status", "top", "version", "wait", "__complete", "__completeNoDesc",
}

// intentOf returns whether kubectl reads or writes with these arguments. An unknown command counts as a write.
func intentOf(arguments []string) intent {
	if strings.HasPrefix(arguments[0], "__complete") {
		return reads
	}
	streams := genericiooptions.NewTestIOStreamsDiscard()
	kubectl := cmd.NewKubectlCommand(cmd.KubectlOptions{ConfigFlags: genericclioptions.NewConfigFlags(true), IOStreams: streams})
	command, _, err := kubectl.Find(arguments)
	if err != nil {
		return writes
	}
	path := strings.TrimPrefix(command.CommandPath(), kubectl.Name()+" ")
	for _, read := range readCommands {
		if path == read || strings.HasPrefix(path, read+" ") {
			return reads
		}
	}
	return writes
}

// needsServer reports whether the arguments ask for more than help.
func needsServer(arguments []string) bool {
	if len(arguments) < 2 || slices.Contains(arguments, "--help") || slices.Contains(arguments, "-h") {
		return false
	}
	return !slices.Contains([]string{"help", "completion", "kustomize", "options", "plugin"}, arguments[1])
}

// checkAnswers makes sure that the server of a found kubeconfig runs: otherwise kubectl prints the same error several
// times.
func checkAnswers(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("%s is not a kubeconfig: %w", kubeconfig, err)
	}
	config.Timeout = answerTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client for the server of %s: %w", kubeconfig, err)
	}
	response, err := client.Get(config.Host + "/livez")
	if err != nil {
		return fmt.Errorf("the server of %s does not answer at %s: start it with bursar standalone --data-dir %s", kubeconfig, config.Host, filepath.Dir(kubeconfig))
	}
	return response.Body.Close()
}
