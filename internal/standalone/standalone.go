// Package standalone runs a whole Bursar in one process: the control plane and its operator. Only the binary bursar and
// tests import it.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/gctuner"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/kube/inprocess"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/internal/standalone/flags"
)

// Options configure a standalone Bursar.
type Options struct {
	config.Quota
	DataDir string
	Listen  string
	Etcd    apiserver.ExternalEtcd
	// Authentication configures the users of the API server besides its own.
	Authentication apiserver.Authentication
	// OnServing, if set, is called with the path of the admin kubeconfig once the API server serves, before quota is
	// enforced.
	OnServing func(kubeconfig string)
	// Out receives a plain line for each step. Default: no output.
	Out io.Writer
	// History has the journals that users read. Default: the entries in the configured sink, if Bursar can read it.
	History journal.Source
	// Metrics, if set, receives the operator's metrics while it runs.
	Metrics prometheus.Registerer
	// Log receives errors. Default: nothing is logged.
	Log logr.Logger
}

// Server is a running standalone Bursar.
type Server struct {
	*apiserver.ControlPlane
	operatorDone chan error
	stop         context.CancelFunc
}

// Start starts a standalone Bursar and returns once quota is enforced. It runs until ctx ends or a component fails; see
// Wait.
func Start(ctx context.Context, o Options) (*Server, error) {
	progress := apiserver.Progress{Out: o.Out}
	completeJournal(&o)
	o.Quota.Default()
	if err := flags.Validate(&o.Quota); err != nil {
		return nil, err
	}
	if err := disableFeatures(); err != nil {
		return nil, fmt.Errorf("set the API server's feature gates: %w", err)
	}
	startTuner()
	gctuner.LimitMemory(o.Log, memlimit.FromCgroup)
	replica, err := newReplica(o)
	if err != nil {
		return nil, err
	}
	// A stopping API server finishes requests, and they need the operator's answer, so the operator ends last. With an
	// external etcd it ends first, because it needs the API server to release its lead.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	starting := context.AfterFunc(ctx, stop)
	ready := &readiness{}
	webhooks, audited := inprocess.New(webhookHost(o)), &inprocess.Audit{}
	webhooks.Handle(http.HandlerFunc(answerNotStarted), o.Log) // until the operator answers
	plane, err := apiserver.Start(serving, apiserver.Options{
		DataDir: o.DataDir, Listen: o.Listen, Etcd: o.Etcd, Authentication: o.Authentication, Settings: settings(o), RequestTimeout: o.RequestTimeout.Duration, MaxObjectBytes: o.MaxObjectBytes, Webhooks: webhooks, Audit: audited, Progress: progress,
		Uncached:    replica.uncached(),
		ReadyChecks: []healthz.HealthChecker{ready},
	})
	if err != nil {
		stop()
		replica.close()
		return nil, err
	}
	s := &Server{ControlPlane: plane, operatorDone: make(chan error, 1), stop: stop}
	if o.OnServing != nil {
		o.OnServing(plane.AdminKubeconfigPath())
	}
	progress.Printf("starting enforcement")
	var op *operator.Operator
	if err = bindSystemNamespace(ctx, plane.Config(), o.SystemNamespace); err == nil {
		op, err = newOperator(plane, webhooks, audited, replica, o)
	}
	if err == nil {
		starting()
		s.run(ctx, op, replica != nil)
		ready.set(op)
		err = s.waitReady(ctx)
	}
	if err != nil {
		stop()
		_ = plane.Wait()
		replica.close()
		return nil, err
	}
	progress.Printf("ready, the admin kubeconfig is %s", plane.AdminKubeconfigPath())
	return s, nil
}

// run runs the operator until ctx ends. If it has an API server to itself, the API server ends first.
func (s *Server) run(ctx context.Context, op *operator.Operator, isShared bool) {
	running := s.untilEnded(context.WithoutCancel(ctx))
	if isShared {
		running = s.untilEnded(ctx)
	} else {
		context.AfterFunc(ctx, func() {
			op.Flush(running) // while there is an API server
			s.stop()
		})
	}
	go func() {
		s.operatorDone <- op.Run(running)
		s.stop() // without the operator nothing is enforced
	}()
}

// untilEnded returns a context that ends with ctx or with the control plane.
func (s *Server) untilEnded(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-s.Ended()
		cancel()
	}()
	return ctx
}

// newOperator creates the operator, after installing the objects left to administrators on a cluster.
func newOperator(plane *apiserver.ControlPlane, webhooks *inprocess.Server, audited *inprocess.Audit, replica *replica, o Options) (*operator.Operator, error) {
	if err := installRoles(plane.Config()); err != nil {
		return nil, err
	}
	direct, err := plane.Direct()
	if err != nil {
		return nil, err
	}
	options := operator.Options{
		Quota: o.Quota, Config: plane.Config(), Username: apiserver.OperatorUser, InstallCRDs: true, Direct: direct, History: o.History, Replica: journalReplicaOf(&o),
		Metrics: o.Metrics, Log: o.Log,
	}
	if replica != nil {
		replica.complete(&options)
		options.Others = plane.Hold()
	}
	options.Webhooks.InProcess, options.Webhooks.Service = webhooks, &server.Service{Name: webhookService, Port: webhookServicePort}
	options.Audit = audited
	return operator.New(options)
}

// waitReady waits until the server's /readyz passes.
func (s *Server) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	const poll, timeout = 20 * time.Millisecond, 5 * time.Minute
	var last []byte
	err = wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-s.operatorDone:
			s.operatorDone <- err
			return false, fmt.Errorf("the operator ended: %w", err)
		case <-s.Ended():
			return false, s.ControlPlane.Wait()
		default:
		}
		var err error
		last, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("the server was not ready after %s: %s", timeout, last)
	}
	return err
}

// Wait returns once everything has stopped, with the error that stopped it, if any.
func (s *Server) Wait() error {
	operatorErr := make(chan error, 1)
	go func() { operatorErr <- <-s.operatorDone }()
	err := s.ControlPlane.Wait()
	s.stop()
	if errOperator := <-operatorErr; !utilnet.IsConnectionRefused(errOperator) { // the API server ends first
		err = errors.Join(err, errOperator)
	}
	return err
}

var errNotStarted = errors.New("enforcement has not started")

// answerNotStarted answers a review with an error that clients repeat. Policies and their webhooks are stored, so the
// API server asks before the operator runs.
func answerNotStarted(w http.ResponseWriter, r *http.Request) {
	review.Serve(w, r, func(*admissionv1.AdmissionRequest, []byte) *admissionv1.AdmissionResponse {
		return review.Undecided(errNotStarted, false)
	})
}

// readiness is the check of /readyz for the enforcement of quota.
type readiness struct {
	mu       sync.Mutex
	operator *operator.Operator
}

func (r *readiness) set(o *operator.Operator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operator = o
}

// Name implements [healthz.HealthChecker].
func (r *readiness) Name() string { return operator.StandaloneCheck }

// Check implements [healthz.HealthChecker].
func (r *readiness) Check(*http.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.operator == nil {
		return errNotStarted
	}
	return r.operator.Ready()
}
