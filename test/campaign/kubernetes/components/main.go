//go:build kubernetes

// Command components is Kubernetes in one binary: etcd, kube-apiserver, kube-controller-manager, kubectl and the
// example of an aggregated API server, each chosen by the first argument. They come from Bursar's own modules, so there
// is nothing else to download, and only one binary to link.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the log format json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics, as in the releases of Kubernetes
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "say which component to run: etcd, kube-apiserver, kube-controller-manager, kubectl or sample-apiserver")
		os.Exit(2)
	}
	os.Args = os.Args[1:] // as each of them finds them where it has a binary of its own
	switch name := os.Args[0]; name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(kubeapiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(kubecontrollermanager.NewControllerManagerCommand())
	case "sample-apiserver":
		options := server.NewWardleServerOptions(os.Stdout, os.Stderr)
		run(server.NewCommandStartWardleServer(genericapiserver.SetupSignalContext(), options, false))
	case "kubectl":
		util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s is no component\n", name)
		os.Exit(2)
	}
}

func run(component *cobra.Command) { os.Exit(cli.Run(component)) }
