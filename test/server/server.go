// Package server starts standalone servers in the process of a test.
package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/quiet"
)

// Server is a running API server.
type Server struct {
	// Kubeconfig is the path of the administrator's kubeconfig, and Config its content.
	Kubeconfig string
	Config     *rest.Config
	// Admin talks to the server as its administrator, without a cache.
	Admin client.WithWatch

	// stop ends a server started by [Start], and returns once it has ended.
	stop func() error
}

// As returns a client for a user, by impersonation.
func (s *Server) As(who rest.ImpersonationConfig) (client.Client, error) {
	config := rest.CopyConfig(s.Config)
	config.Impersonate = who
	return client.New(config, client.Options{Scheme: s.Admin.Scheme(), Mapper: s.Admin.RESTMapper()})
}

// Stop ends a server started by [Start], and returns once it has ended. Call it once.
func (s *Server) Stop() error { return s.stop() }

// Start starts a server and returns once it enforces quota. Unless the options name a directory, Stop removes its data.
// It listens on a free port unless the options name an address.
func Start(options standalone.Options) (*Server, error) {
	remove := func() error { return nil }
	if options.DataDir == "" {
		dir, err := os.MkdirTemp("", "bursar-test-")
		if err != nil {
			return nil, err
		}
		options.DataDir, remove = dir, func() error { return os.RemoveAll(dir) }
	}
	if options.Listen == "" {
		options.Listen = "127.0.0.1:0"
	}
	options.Log = logr.Discard()
	ctx, cancel := context.WithCancel(context.Background())
	running, err := standalone.Start(ctx, options)
	if err != nil {
		cancel()
		return nil, errors.Join(err, remove())
	}
	stop := func() error {
		cancel()
		err := await.End(running.Wait)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return errors.Join(err, remove())
	}
	server, err := Connect(running.AdminKubeconfigPath())
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	server.stop = stop
	return server, nil
}

// Main starts a server, passes it to use, runs the tests, and ends the process. It calls after once the tests have run
// and while the server still runs. An error of after fails the tests; after may be nil. With -short there are no tests.
func Main(m *testing.M, options standalone.Options, use func(context.Context, *Server) error, after func(context.Context) error) {
	flag.Parse()
	if testing.Short() {
		return
	}
	code, err := run(m, options, use, after)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, options standalone.Options, use func(context.Context, *Server) error, after func(context.Context) error) (code int, err error) {
	quiet.Libraries()
	server, err := Start(options)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	ctx := context.Background()
	if err := use(ctx, server); err != nil {
		return 0, err
	}
	code = m.Run()
	if after != nil {
		err = after(ctx)
	}
	return code, err
}

// Connect reaches a running server. Its starter stops it.
func Connect(kubeconfig string) (*Server, error) {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types)); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	admin, err := client.NewWithWatch(config, client.Options{Scheme: types})
	return &Server{Kubeconfig: kubeconfig, Config: config, Admin: admin}, err
}
