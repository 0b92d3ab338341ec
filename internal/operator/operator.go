package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grant"
	"github.com/bursar/bursar/internal/kube/apiclient"
	"github.com/bursar/bursar/internal/kube/crdinstall"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/kube/secrets"
)

// Operator enforces quota on one API server.
type Operator struct {
	options    Options
	client     kubernetes.Interface
	metadata   metadata.Interface
	secrets    *secrets.Client
	extensions apiextensionsclient.Interface
	httpClient *http.Client
	scheme     *runtime.Scheme
	// problem is why quota is not enforced, or empty once it is.
	problem    atomic.Pointer[string]
	isStopping atomic.Bool
	// stopping ends when the operator is asked to stop.
	stopping context.Context
	// quota is set once the operator works.
	quota atomic.Pointer[quota]
	// clock is the clock of the API server.
	clock apiclient.Clock
	// deletions knows who deletes grants.
	deletions *grant.Deletions
}

// errNoPeerAddress means that other replicas may run, and cannot reach this one. Each would then believe that it is
// alone, and take over the work of the others again and again.
var errNoPeerAddress = errors.New("this replica has no address for the other replicas: set the environment variable POD_IP to the address of its Pod, " +
	"or webhooks.bindAddress in the configuration to an address of this host")

// New returns an operator. It does nothing until it is run.
func New(options Options) (*Operator, error) {
	options.Quota.Default()
	if options.LeaderElection != nil && options.Webhooks.PeerAddress == "" {
		return nil, errNoPeerAddress
	}
	o := &Operator{options: options, scheme: runtime.NewScheme()}
	o.deletions = grant.NewDeletions(&o.clock, options.Log.WithName("journal"))
	o.notReady("the operator has not started")
	if err := errors.Join(clientgoscheme.AddToScheme(o.scheme), quotav1alpha1.AddToScheme(o.scheme), openmcpv1alpha1.AddToScheme(o.scheme)); err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	var err error
	if o.httpClient, err = apiclient.NewHTTPClient(options.Config, apiclient.DefaultTimeouts, &o.clock); err != nil {
		return nil, fmt.Errorf("make an HTTP client: %w", err)
	}
	if o.client, err = kubernetes.NewForConfigAndClient(options.Config, o.httpClient); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if o.metadata, err = metadata.NewForConfigAndClient(options.Config, o.httpClient); err != nil {
		return nil, fmt.Errorf("make a metadata client: %w", err)
	}
	if o.secrets, err = secrets.New(options.Config, o.httpClient); err != nil {
		return nil, err
	}
	if o.extensions, err = apiextensionsclient.NewForConfigAndClient(options.Config, o.httpClient); err != nil {
		return nil, fmt.Errorf("make a client for CRDs: %w", err)
	}
	return o, nil
}

// Ready returns nil once quota is enforced: the webhooks are served, the policies are loaded, and the API server sends
// the requests on protected kinds.
func (o *Operator) Ready() error {
	if problem := o.problem.Load(); problem != nil {
		return errors.New(*problem)
	}
	return nil
}

// notReady sets the answer of Ready, and logs it once after a change.
func (o *Operator) notReady(problem string) {
	if before := o.problem.Swap(&problem); before == nil || *before != problem {
		o.options.Log.Info("this replica does not enforce quota", "because", problem)
	}
}

// waitForCRDs waits until somebody has applied the CRDs of this version of Bursar. The latest addition shows it.
func (o *Operator) waitForCRDs(ctx context.Context) error {
	added := schema.GroupVersion{Group: quotav1alpha1.GroupName, Version: quotav1alpha1.GrantedVersion}
	return wait.PollUntilContextCancel(ctx, crdsPoll, true, func(context.Context) (bool, error) {
		_, err := o.client.Discovery().ServerResourcesForGroupVersion(added.String())
		if err != nil {
			o.notReady(fmt.Sprintf("the API server does not serve %s: apply deploy/crds of this version of Bursar", added))
			o.options.Log.V(1).Info("waiting for CRDs", "err", err.Error())
		}
		return err == nil, nil
	})
}

// crdsPoll is the time between two checks for CRDs.
const crdsPoll = time.Second

// flushTimeout bounds the last writes of a replica that stops.
const flushTimeout = 3 * time.Second

// Run enforces quota until ctx ends, or returns why it cannot. After the end of ctx it reports itself not ready, and
// continues to answer for the delay in the options.
func (o *Operator) Run(ctx context.Context) error {
	if o.options.InstallCRDs {
		o.notReady("Bursar's kinds are being installed")
		if err := crdinstall.Install(ctx, o.extensions, o.client.Discovery(), o.options.Log.WithName("crds"), o.options.ResourceQuotas.Unserved()...); err != nil {
			return stopped(ctx, err)
		}
	} else if err := o.waitForCRDs(ctx); err != nil {
		return stopped(ctx, err)
	}
	if err := namespaces.Ensure(ctx, o.client, o.options.SystemNamespace); err != nil {
		return stopped(ctx, err)
	}
	if err := o.findUsername(ctx); err != nil {
		return stopped(ctx, err)
	}
	o.stopping = ctx
	// The ledgers stay in use until the last flush, after the end of all other work.
	storing, endStoring := context.WithCancel(context.WithoutCancel(ctx))
	defer endStoring()
	working, stop := context.WithCancel(storing)
	defer stop()
	group, working := errgroup.WithContext(working)
	components, err := o.assemble(working, storing)
	if err != nil {
		return stopped(ctx, err)
	}
	o.quota.Store(components.quota)
	stopMetrics, err := serveMetrics(o.options.Metrics, components.collectors)
	if err != nil {
		return stopped(ctx, err)
	}
	defer stopMetrics()
	o.notReady("policies are being loaded")
	defer context.AfterFunc(ctx, func() {
		o.isStopping.Store(true)
		o.notReady("the operator is stopping")
	})()
	group.Go(func() error {
		defer stop() // answers need the other components
		err := components.server.Serve(ctx, working)
		o.Flush(storing) // also after the failure of another component, so that no slice is left behind
		return err
	})
	group.Go(func() error { return components.server.Certificates.Run(working) })
	group.Go(func() error { return components.cluster.manager.Start(working) })
	group.Go(func() error { return components.cluster.kinds.Run(working) })
	group.Go(func() error { return components.evaluations.Run(working) })
	group.Go(func() error { return components.load(working, group, o) })
	err = group.Wait()
	o.closeJournal(components.quota)
	return stopped(ctx, err)
}

// Flush commits the changes waiting for later commits, and stores the journal entries of these commits. No other
// process then has to discover the changes. The operator flushes at its end. A caller that ends its API server first
// calls Flush before. Flush takes a few seconds at most.
func (o *Operator) Flush(ctx context.Context) {
	q := o.quota.Load()
	if q == nil {
		return // it has not started
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := q.ledgers.Flush(ctx)
	if q.journal != nil {
		q.journal.Flush(ctx)
		err = errors.Join(err, q.ledgers.Flush(ctx)) // the ledgers drop stored entries
	}
	if err != nil && !utilnet.IsConnectionRefused(err) { // a standalone server ends its API server first
		o.options.Log.Error(err, "cannot write everything; another replica will")
	}
}

// findUsername asks the API server for this client's username, unless the options have it.
func (o *Operator) findUsername(ctx context.Context) error {
	if o.options.Username != "" {
		return nil
	}
	review, err := o.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask the API server for Bursar's user name: %w", err)
	}
	o.options.Username = review.Status.UserInfo.Username
	o.reportUser()
	return nil
}

// reportUser reports whose requests pass without a review. If a person has the same user, quota does not limit that
// person.
func (o *Operator) reportUser() {
	log := o.options.Log.WithValues("user", o.options.Username)
	if strings.HasPrefix(o.options.Username, serviceaccount.ServiceAccountUsernamePrefix) {
		log.Info("requests of this user pass without a review")
		return
	}
	log.Error(errNoAccount, "requests of this user pass without a review, so quota does not limit anybody with its credentials: "+
		"give the operator a ServiceAccount, or a user that nobody else has")
}

var errNoAccount = errors.New("the operator does not run as a ServiceAccount")

// stopped drops errors caused by the stop of the operator.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// StandaloneCheck is the check in /readyz of a standalone Bursar only. It passes once Bursar enforces quota.
const StandaloneCheck = "quota-enforcement"
