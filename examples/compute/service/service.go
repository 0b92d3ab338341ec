// Package service is the compute service: it makes machines for Instances once their Project has the quota, and
// Instances for WorkloadDeployments. Of Bursar it imports only the API types and sdk/claims.
package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/provider"
	"github.com/bursar/bursar/sdk/claims"
)

// The providers. Auto is Pods if the API server has nodes, and Simulated otherwise.
const (
	ProviderAuto      = "auto"
	ProviderPods      = "pods"
	ProviderSimulated = "simulated"
)

// Options are the options of the service.
type Options struct {
	// Config is the configuration for the API server.
	Config *rest.Config
	// Provider is one of the providers above. Default: ProviderAuto.
	Provider string
	// GPU is the extended resource of nodes with one unit for each GPU, for Pods.
	GPU string
	// LeaderElectionNamespace is the namespace of leader election. Default: no leader election, for a single replica.
	LeaderElectionNamespace string
	// MetricsAddress is the address of the metrics endpoint as host:port. Default: no metrics.
	MetricsAddress string
	// Log receives the log.
	Log logr.Logger
}

// Run runs the service until ctx ends. It returns an error if the API server lacks required kinds, or if this replica
// loses the leadership: start it again then.
func Run(ctx context.Context, o Options) error {
	if !slices.Contains([]string{"", ProviderAuto, ProviderPods, ProviderSimulated}, o.Provider) {
		return fmt.Errorf("there is no provider %q: choose %s, %s or %s", o.Provider, ProviderAuto, ProviderPods, ProviderSimulated)
	}
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	if err := checkKinds(mgr.GetRESTMapper()); err != nil {
		return err
	}
	machines, err := newProvider(o, mgr.GetClient(), mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	o.Log.Info("machines are made", "provider", machines.Name())
	quota := &claims.Client{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	recorder := mgr.GetEventRecorder("compute")
	if err := (&instances{cached: mgr.GetClient(), live: mgr.GetAPIReader(), quota: quota, machines: machines, recorder: recorder}).setUp(mgr); err != nil {
		return fmt.Errorf("set up the controller of Instances: %w", err)
	}
	if err := (&deployments{cached: mgr.GetClient(), live: mgr.GetAPIReader(), quota: quota, recorder: recorder}).setUp(mgr); err != nil {
		return fmt.Errorf("set up the controller of WorkloadDeployments: %w", err)
	}
	return mgr.Start(ctx)
}

func newManager(o Options) (ctrl.Manager, error) {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), quotav1alpha1.AddToScheme(types), computev1alpha1.AddToScheme(types)); err != nil {
		return nil, err
	}
	if o.MetricsAddress == "" {
		o.MetricsAddress = "0"
	}
	mgr, err := ctrl.NewManager(o.Config, ctrl.Options{
		Scheme: types, Logger: o.Log,
		Metrics: metricsserver.Options{BindAddress: o.MetricsAddress},
		// Providers need the current state: a cache may lack a machine made just before.
		Client:         client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}}}},
		LeaderElection: o.LeaderElectionNamespace != "", LeaderElectionNamespace: o.LeaderElectionNamespace, LeaderElectionID: "compute.datumapis.com",
		LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{
			SkipNameValidation: new(true), // several may run in one process
			// It may hang as it ends (kubernetes-sigs/controller-runtime#3538).
			UsePriorityQueue: new(false),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return mgr, nil
}

// checkKinds returns an error if the API server does not serve the required kinds.
func checkKinds(mapper apimeta.RESTMapper) error {
	for _, needed := range []struct {
		group, kind, advice string
	}{
		{quotav1alpha1.GroupName, "ResourceClaim", "install Bursar"},
		{computev1alpha1.GroupVersion.Group, "Instance", "apply examples/compute/config/crds"},
		{computev1alpha1.GroupVersion.Group, "WorkloadDeployment", "apply examples/compute/config/crds"},
	} {
		kind := schema.GroupKind{Group: needed.group, Kind: needed.kind}
		_, err := mapper.RESTMapping(kind)
		switch {
		case apimeta.IsNoMatchError(err):
			return fmt.Errorf("the API server does not serve %s: %s first", kind, needed.advice)
		case err != nil:
			return fmt.Errorf("ask the API server for %s: %w", kind, err)
		}
	}
	return nil
}

// newProvider returns the provider for the options.
func newProvider(o Options, api client.Client, mapper apimeta.RESTMapper) (provider.Provider, error) {
	name := o.Provider
	if name == "" || name == ProviderAuto {
		name = ProviderPods
		_, err := mapper.RESTMapping(schema.GroupKind{Kind: "Node"})
		switch {
		case apimeta.IsNoMatchError(err):
			name = ProviderSimulated
		case err != nil:
			return nil, fmt.Errorf("ask the API server whether it has nodes: %w", err)
		}
	}
	if name == ProviderSimulated {
		return provider.Simulated{Client: api}, nil
	}
	return provider.Pods{Client: api, GPU: corev1.ResourceName(o.GPU)}, nil
}
