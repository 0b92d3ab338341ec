// Package uninstall removes Bursar from a cluster with a stopped operator. First it removes the webhooks and
// finalizers: from then on nothing denies a request, and no deletion waits. On request, it also removes everything
// stored. It names resources by their API group throughout, because Kubernetes has ResourceClaims of its own. Each step
// may run again after an interruption. Only commands import it.
package uninstall

import (
	"context"
	"fmt"
	"io"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Options configure the removal.
type Options struct {
	// Config reaches the API server as an administrator.
	Config *rest.Config
	// SystemNamespace is Bursar's own namespace.
	SystemNamespace string
	// CertificateSecret holds the certificate of the webhooks.
	CertificateSecret string
	// Purge also removes everything stored by Bursar.
	Purge bool
	// DryRun only counts.
	DryRun bool
	// Program is the name of the command line. It begins the lines.
	Program string
	// Out receives a line for each step.
	Out io.Writer
}

// uninstaller holds the clients of one run.
type uninstaller struct {
	Options
	client     kubernetes.Interface
	extensions apiextensionsclient.Interface
	metadata   metadata.Interface
	dynamic    dynamic.Interface
	// kinds are Bursar's kinds on the cluster, in the order of their objects' removal.
	kinds []kind
}

// Run removes Bursar. It changes nothing unless the operator has stopped and the user has every permission.
func Run(ctx context.Context, o Options) error {
	config := rest.CopyConfig(o.Config)
	config.WarningHandler = rest.NoWarnings{} // for listed and deprecated kinds
	config.QPS = -1                           // concurrency limits the rate, and the API server may slow it down
	u := &uninstaller{Options: o}
	var err error
	if u.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if u.extensions, err = apiextensionsclient.NewForConfig(config); err != nil {
		return fmt.Errorf("make a client for CRDs: %w", err)
	}
	if u.metadata, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("make a metadata client: %w", err)
	}
	if u.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("make a dynamic client: %w", err)
	}
	for _, step := range []func(context.Context) error{
		u.checkPermissions, u.checkServer, u.findKinds, u.checkInPlace, u.checkNamespace, u.checkStopped, u.stopEnforcement, u.removeFinalizers,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if !o.Purge {
		return u.reportRemaining(ctx)
	}
	for _, step := range []func(context.Context) error{u.removeObjects, u.removeImports, u.removeDefinitions, u.cleanNamespace, u.reportInstallation} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// report prints a finished step or, in a dry run, a planned one.
func (u *uninstaller) report(done, would, format string, args ...any) {
	verb := done
	if u.DryRun {
		verb = "would " + would
	}
	u.note("%s", verb+" "+fmt.Sprintf(format, args...))
}

// note prints a line, also in a dry run.
func (u *uninstaller) note(format string, args ...any) {
	fmt.Fprintf(u.Out, u.Program+": "+format+"\n", args...) //nolint:errcheck // the reader may be gone
}
