// Package increases drives a real standalone server, started in this process, as administrators would who give
// namespaces quotas and raise them, and asserts what they and the users of the namespaces would notice.
package increases

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controlplane"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/quiet"
)

var (
	// admin talks to the server as its administrator, without a cache.
	admin client.Client
	// bursar talks to it as Bursar itself, whom the webhooks do not ask about: so it stores what was stored
	// before there were webhooks.
	bursar client.Client
	// kubeconfig is how kubectl reaches it.
	kubeconfig string
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
	dir, err := os.MkdirTemp("", "bursar-increases-")
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer os.RemoveAll(dir) //nolint:errcheck // best effort
	quiet.Libraries()
	server, err := standalone.Start(ctx, standalone.Options{DataDir: dir, Listen: "127.0.0.1:0", Log: logr.Discard()})
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
	fmt.Fprintln(os.Stderr, "increases:", err)
	return 1
}

func connect(server *standalone.Server) (err error) {
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), quotav1alpha1.AddToScheme(s), openmcpv1alpha1.AddToScheme(s)); err != nil {
		return err
	}
	kubeconfig = server.AdminKubeconfigPath()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	if admin, err = client.New(config, client.Options{Scheme: s}); err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: controlplane.OperatorUser, Groups: []string{"system:masters"}}
	bursar, err = client.New(config, client.Options{Scheme: s})
	return err
}
