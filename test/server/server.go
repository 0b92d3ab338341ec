// Package server starts a standalone server in the process of a test, for all tests of a package.
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
	"github.com/bursar/bursar/test/quiet"
)

// Server is one that has started.
type Server struct {
	// Kubeconfig is the path of its administrator's, and Config what it says.
	Kubeconfig string
	Config     *rest.Config
	// Admin talks to it as its administrator, without a cache.
	Admin client.Client
}

// As returns a client for somebody whom the administrator impersonates.
func (s *Server) As(who rest.ImpersonationConfig) (client.Client, error) {
	config := rest.CopyConfig(s.Config)
	config.Impersonate = who
	return client.New(config, client.Options{Scheme: s.Admin.Scheme(), Mapper: s.Admin.RESTMapper()})
}

// Main starts a server, tells use of it, runs the tests, and ends the process. What after returns once they have
// run, while the server still does, fails them; it may be nil. With -short there are no tests.
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
	if options.DataDir, err = os.MkdirTemp("", "bursar-test-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(options.DataDir) //nolint:errcheck // best effort
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	quiet.Libraries()
	options.Listen, options.Log = "127.0.0.1:0", logr.Discard()
	started, err := standalone.Start(ctx, options)
	if err != nil {
		return 0, err
	}
	server, err := connect(started.AdminKubeconfigPath())
	if err != nil {
		return 0, err
	}
	if err := use(ctx, server); err != nil {
		return 0, err
	}
	code = m.Run()
	if after != nil {
		err = after(ctx)
	}
	cancel()
	if ended := started.Wait(); !errors.Is(ended, context.Canceled) {
		err = errors.Join(err, ended)
	}
	return code, err
}

func connect(kubeconfig string) (*Server, error) {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types)); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	admin, err := client.New(config, client.Options{Scheme: types})
	return &Server{Kubeconfig: kubeconfig, Config: config, Admin: admin}, err
}
