package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
)

func main() {
	root := flag.String("root", filepath.Join(os.TempDir(), "buckets"), "folder in which the service makes the directories of Buckets")
	flag.Parse() // with --kubeconfig of controller-runtime
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if err := run(ctrl.SetupSignalHandler(), *root); err != nil {
		fmt.Fprintln(os.Stderr, "owning-service:", err)
		os.Exit(1)
	}
}

// run serves Buckets until ctx ends.
func run(ctx context.Context, root string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no API server is named; set KUBECONFIG or --kubeconfig: %w", err)
	}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), quotav1alpha1.AddToScheme(types), addBuckets(types)); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: types, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	s := &service{Client: manager.GetClient(), root: root, quota: &claims.Client{Client: manager.GetClient(), Live: manager.GetAPIReader()}}
	// A claim has its Bucket as its controller, so a decision calls Reconcile.
	err = ctrl.NewControllerManagedBy(manager).For(&Bucket{}).Owns(&quotav1alpha1.ResourceClaim{}).Complete(s)
	if err != nil {
		return fmt.Errorf("set up the controller of Buckets: %w", err)
	}
	return manager.Start(ctx)
}
