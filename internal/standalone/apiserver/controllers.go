package apiserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The leader election of servers on one etcd, see [k8s.io/client-go/tools/leaderelection]. After the loss of etcd, a
// leader runs for as long as its hold.
const (
	LeaseDuration = 20 * time.Second
	RenewDeadline = etcdHoldSeconds * time.Second
	RetryPeriod   = 2 * time.Second
)

const (
	// discoveryInterval is the time between the garbage collector's checks for new kinds.
	discoveryInterval = 5 * time.Second
	collectorWorkers  = 4
	namespaceWorkers  = 4
)

// notCollected returns the resources ignored by the garbage collector: the upstream ones and the ledgers of consumers.
// Ledgers change with every create and have no owners.
func notCollected() map[schema.GroupResource]struct{} {
	ignored := maps.Clone(garbagecollector.DefaultIgnoredResources())
	ignored[schema.GroupResource{Group: quotav1alpha1.GroupName, Resource: "consumerledgers"}] = struct{}{}
	return ignored
}

// ownership strips an object's metadata of everything unused by the garbage collector and by the count of objects for
// ResourceQuotas. The garbage collector reads an object again before it changes it.
func ownership(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: full.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
		OwnerReferences: full.OwnerReferences, Finalizers: full.Finalizers, DeletionTimestamp: full.DeletionTimestamp,
		DeletionGracePeriodSeconds: full.DeletionGracePeriodSeconds,
	}}, nil
}

// controllersLease is the Lease with which the servers on one etcd elect the runner of the controllers. The operators
// have their own.
const controllersLease = "bursar-controllers"

// startControllers runs the controllers until ctx ends, on one server at a time: two garbage collectors would do no
// harm, but send every request twice.
func (c *ControlPlane) startControllers(ctx context.Context) (wait func(), err error) {
	if c.hold == nil {
		return runControllers(ctx, c.operator, c.pki)
	}
	client, err := kubernetes.NewForConfig(c.operator)
	if err != nil {
		return nil, fmt.Errorf("make a client for the controllers: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			c.runTerm(ctx, client)
		}
	}()
	return func() { <-ended }, nil
}

// runTerm waits for the election of this server, and runs the controllers until it loses the lead.
func (c *ControlPlane) runTerm(ctx context.Context, client kubernetes.Interface) {
	var term sync.WaitGroup
	defer term.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leading := make(chan context.Context, 1)
	term.Go(func() {
		select {
		case <-ctx.Done():
		case leading := <-leading:
			stopped, err := runControllers(leading, c.operator, c.pki)
			if err != nil {
				klog.FromContext(ctx).Error(err, "cannot run the controllers; another server will, or this one in a moment")
				cancel()
				return
			}
			stopped()
		}
	})
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: controllersLease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: rand.Text()},
		},
		LeaseDuration: LeaseDuration, RenewDeadline: RenewDeadline, RetryPeriod: RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { leading <- ctx },
			OnStoppedLeading: func() {},
		},
	})
}

// runControllers runs the upstream controllers for a control plane without pods, until ctx ends.
func runControllers(ctx context.Context, config *rest.Config, p *pki) (wait func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the controllers: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a metadata client for the controllers: %w", err)
	}
	typed := informers.NewSharedInformerFactory(client, 0)
	generic := informerfactory.NewInformerFactory(typed, metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, 0, metadatainformer.WithTransform(ownership)))
	started := make(chan struct{})

	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper,
		notCollected(), generic, started)
	if err != nil {
		return nil, fmt.Errorf("make the garbage collector: %w", err)
	}
	namespaces := namespace.NewNamespaceController(ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources,
		typed.Core().V1().Namespaces(), 0, corev1.FinalizerKubernetes)
	roles := clusterroleaggregation.NewClusterRoleAggregation(typed.Rbac().V1().ClusterRoles(), client.RbacV1())
	accounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), typed.Core().V1().ServiceAccounts(),
		typed.Core().V1().Namespaces(), client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, fmt.Errorf("make the service account controller: %w", err)
	}
	signer, err := signer.NewKubeAPIServerClientCSRSigningController(ctx, client, typed.Certificates().V1().CertificateSigningRequests(),
		p.caFile(), p.caKeyFile(), certificateLifetime)
	if err != nil {
		return nil, fmt.Errorf("make the controller that signs client certificates: %w", err)
	}
	cleaner := cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), typed.Certificates().V1().CertificateSigningRequests())
	countQuotas, err := newQuotaController(ctx, client, typed, generic, started)
	if err != nil {
		return nil, err
	}

	var group sync.WaitGroup
	group.Go(countQuotas)
	group.Go(func() { collector.Run(ctx, collectorWorkers, discoveryInterval) })
	group.Go(func() { collector.Sync(ctx, client.Discovery(), discoveryInterval) })
	group.Go(func() { namespaces.Run(ctx, namespaceWorkers) })
	group.Go(func() { roles.Run(ctx, 1) })
	group.Go(func() { accounts.Run(ctx, 1) })
	group.Go(func() { signer.Run(ctx, 1) })
	group.Go(func() { cleaner.Run(ctx, 1) })
	generic.Start(ctx.Done())
	close(started)
	return group.Wait, nil
}
