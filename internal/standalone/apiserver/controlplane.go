package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/bursar/bursar/internal/kube/directstore"
	"github.com/bursar/bursar/internal/standalone/datadir"
)

const (
	// endTimeout is how long the API server may take to end after the loss of its etcd.
	endTimeout = 5 * time.Second
	// hooksTimeout is how long a stop waits for the hooks of an API server that starts.
	hooksTimeout = 30 * time.Second
)

// ControlPlane is a running control plane.
type ControlPlane struct {
	options  Options
	dir      *datadir.Directory
	pki      *pki
	etcd     *etcdServer
	hold     *EtcdHold // on an external etcd
	kv       *clientv3.Client
	operator *rest.Config

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Start starts a control plane and returns once its API server serves. Its readiness also depends on the options'
// ReadyChecks. It runs until ctx ends; see Wait.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	dir, err := datadir.Open(o.DataDir)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{options: o, dir: dir, done: make(chan struct{})}
	if err := c.start(ctx); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := checkOpenFiles(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.options.Listen)
	if err != nil {
		return listenError(c.options.Listen, err)
	}
	for _, sub := range []string{"pki", "etcd", "logs"} {
		if err := os.MkdirAll(c.dir.Join(sub), 0o700); err != nil {
			return fmt.Errorf("data directory %s cannot be used: %s is in the way: %w", c.dir.Path(), c.dir.Join(sub), datadir.Reason(err))
		}
	}
	if c.pki, err = openPKI(c.dir.Join("pki")); err != nil {
		return err
	}
	etcd := c.options.Etcd
	if len(etcd.Servers) == 0 {
		c.options.Progress.Printf("starting etcd in %s", c.dir.Join("etcd"))
		if err := checkEtcd(c.dir.Join("etcd", etcdMember)); err != nil {
			return damage(c.dir.Path(), err)
		}
		if c.etcd, err = startEtcd(ctx, c.dir.Join("etcd"), c.dir.Join("logs", "etcd.log"), c.pki, c.options.MaxObjectBytes); err != nil {
			return err
		}
		etcd.Servers = []string{c.etcd.endpoint}
		c.kv = v3client.New(c.etcd.server.Server)
	} else {
		c.options.Progress.Printf("connecting to etcd at %s", strings.Join(etcd.Servers, ", "))
		if err := etcd.check(ctx); err != nil {
			return err
		}
		if c.hold, err = etcd.hold(ctx, c.options.Settings, c.options.Progress); err != nil {
			return err
		}
		if c.pki, err = c.hold.sharePKI(ctx, c.pki); err != nil {
			return err
		}
		if c.kv, err = etcd.connect(); err != nil {
			return err
		}
	}
	return c.serve(ctx, listener, etcd)
}

// serve starts the API server and the controllers.
func (c *ControlPlane) serve(ctx context.Context, listener net.Listener, etcd ExternalEtcd) error {
	c.options.Progress.Printf("starting the API server on https://%s", listener.Addr())
	serverURL := "https://" + loopbackAddress(listener.Addr().(*net.TCPAddr))
	admin, err := c.pki.signUser(serverURL, "admin", "system:masters")
	if err != nil {
		return err
	}
	if err := writeKubeconfig(c.AdminKubeconfigPath(), admin); err != nil {
		return err
	}
	operator, err := newOperatorUser(c.dir.Join("pki", "operator-token.csv"))
	if err != nil {
		return err
	}
	c.operator = operator.config(serverURL, c.pki)

	// The server outlives ctx: its clients end first.
	serverCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	server, err := c.newAPIServer(serverCtx, operator, listener, etcd)
	if err != nil {
		cancel()
		return err
	}
	client, err := kubernetes.NewForConfig(c.operator)
	if err != nil {
		cancel()
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- run(serverCtx, server) }()
	if err = c.waitServing(ctx, client, failed); err == nil {
		err = allowAnonymousDiscovery(ctx, client)
	}
	var stopped func()
	if err == nil {
		stopped, err = c.startControllers(ctx)
	}
	if err != nil {
		cancel()
		_ = c.waitEnded(failed) // the start failed before
		return err
	}
	go c.finish(ctx, failed, stopped)
	return nil
}

func run(ctx context.Context, server *aggregator.APIAggregator) error {
	prepared, err := server.PrepareRun()
	if err != nil {
		return fmt.Errorf("prepare the API server: %w", err)
	}
	return prepared.Run(ctx)
}

// waitServing waits until the API server answers requests and has created its own namespaces. It goes on for a while
// after the end of ctx: the hooks of the API server end the process if their server ends before them.
func (c *ControlPlane) waitServing(ctx context.Context, client kubernetes.Interface, failed chan error) error {
	const poll, timeout = 10 * time.Millisecond, 2 * time.Minute
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(hooksTimeout, cancel) })()
	var last error
	err := wait.PollUntilContextTimeout(waiting, poll, timeout, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-failed:
			failed <- err
			return false, fmt.Errorf("the API server ended: %w", err)
		default:
		}
		_, last = client.Discovery().RESTClient().Get().AbsPath("/livez").DoRaw(ctx)
		return last == nil, nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if wait.Interrupted(err) {
		return fmt.Errorf("the API server did not come up within %s: %w", timeout, last)
	}
	return err
}

// finish stops everything, in reverse order of the start.
func (c *ControlPlane) finish(ctx context.Context, failed chan error, stopped func()) {
	defer close(c.done)
	select {
	case <-ctx.Done():
		stopped()
		c.cancel()
		c.err = c.waitEnded(failed)
	case c.err = <-failed:
		if c.err == nil {
			c.err = errors.New("the API server ended")
		}
	case <-c.hold.lost():
		_ = c.waitEnded(failed) // the loss is the cause
		c.err = c.hold.lostError()
	}
	c.cancel()
	c.release()
}

// waitEnded waits for the end of the API server, and returns its error. A graceful end needs a responsive etcd, so
// waitEnded does not wait much longer once the hold on etcd is lost.
func (c *ControlPlane) waitEnded(failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	case <-c.hold.lost():
	}
	c.cancel()
	select {
	case <-failed:
	case <-time.After(endTimeout):
	}
	return c.hold.lostError()
}

func (c *ControlPlane) release() {
	if c.kv != nil {
		closeQuietly(c.kv)
	}
	c.hold.release()
	if c.etcd != nil {
		c.etcd.stop()
	}
	c.dir.Close()
}

// Ended is closed once the control plane has ended; Wait then returns the reason.
func (c *ControlPlane) Ended() <-chan struct{} { return c.done }

// Wait returns once the control plane has ended, after its context ended or because it failed.
func (c *ControlPlane) Wait() error {
	<-c.done
	return c.err
}

// Config returns a configuration for the operator's own user, without client-side throttling.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.operator) }

// Direct returns a store for custom objects in the etcd of the API server.
func (c *ControlPlane) Direct() (*directstore.Store, error) {
	client, err := kubernetes.NewForConfig(c.operator)
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	return directstore.New(c.kv, kubeoptions.DefaultEtcdPathPrefix, client.CoreV1().Namespaces()), nil
}

// Hold returns this server's hold on an external etcd. With an embedded one it is nil.
func (c *ControlPlane) Hold() *EtcdHold { return c.hold }

// AdminKubeconfigPath returns the path of the administrator's kubeconfig.
func (c *ControlPlane) AdminKubeconfigPath() string {
	return datadir.Kubeconfig(c.dir.Path())
}

// loopbackAddress returns the address of a listener for local clients.
func loopbackAddress(address *net.TCPAddr) string {
	return net.JoinHostPort(advertised(address.IP).String(), fmt.Sprint(address.Port))
}

// listenError returns one sentence on why an address cannot be listened on.
func listenError(address string, err error) error {
	if opErr := (*net.OpError)(nil); errors.As(err, &opErr) {
		err = opErr.Err
	}
	if syscallErr := (*os.SyscallError)(nil); errors.As(err, &syscallErr) {
		err = syscallErr.Err
	}
	return fmt.Errorf("cannot listen on %s: %w; choose another --listen", address, err)
}
