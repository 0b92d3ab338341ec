// Package allocations drives a real standalone server, started in this process, as administrators and owners of
// projects would who spread a cap among their namespaces.
package allocations

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/quiet"
)

var (
	// admin talks to the server as its administrator, without a cache, and adminConfig reaches it as that.
	admin       client.Client
	adminConfig *rest.Config
	// kubeconfig is the administrator's.
	kubeconfig string
	// metrics are the server's.
	metrics = prometheus.NewRegistry()
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return
	}
	os.Exit(run(m))
}

// run starts the server that all tests share.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bursar-allocations-")
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer os.RemoveAll(dir) //nolint:errcheck // best effort
	quiet.Libraries()
	server, err := standalone.Start(ctx, standalone.Options{DataDir: dir, Listen: "127.0.0.1:0", Metrics: metrics, Log: logr.Discard()})
	if err != nil {
		return fail(err)
	}
	if err := connect(server); err != nil {
		return fail(err)
	}
	code := m.Run()
	cancel()
	if err := server.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "allocations:", err)
	return 1
}

func connect(server *standalone.Server) (err error) {
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), quotav1alpha1.AddToScheme(s)); err != nil {
		return err
	}
	kubeconfig = server.AdminKubeconfigPath()
	if adminConfig, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	adminConfig.QPS = -1
	admin, err = client.New(adminConfig, client.Options{Scheme: s})
	return err
}
