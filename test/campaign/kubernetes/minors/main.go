// Command minors is kube-apiserver and kube-controller-manager of one minor version of Kubernetes in one binary, chosen
// by the first argument. Each minor has a module file of its own beside this one, such as 1.32.mod, so none of them
// decides about the dependencies of another or of Bursar.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the log format json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics, as in the releases of Kubernetes
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "say which component to run: kube-apiserver or kube-controller-manager")
		os.Exit(2)
	}
	os.Args = os.Args[1:] // as each of them finds them where it has a binary of its own
	switch name := os.Args[0]; name {
	case "kube-apiserver":
		run(kubeapiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(kubecontrollermanager.NewControllerManagerCommand())
	default:
		fmt.Fprintf(os.Stderr, "%s is no component\n", name)
		os.Exit(2)
	}
}

func run(component *cobra.Command) {
	os.Exit(cli.Run(component))
}
