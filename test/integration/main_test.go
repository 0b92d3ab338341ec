// Package integration drives a real standalone server, started in this process, as its users
// would, and asserts what they would notice.
package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/quiet"
)

// admin talks to the server as its administrator, without a cache.
var admin client.Client

// adminConfig reaches the server as its administrator.
var adminConfig *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return
	}
	os.Exit(run(m))
}

// run starts the server that all tests share.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bursar-integration-")
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer os.RemoveAll(dir) //nolint:errcheck // best effort
	quiet.Libraries()
	server, err := standalone.Start(ctx, standalone.Options{
		DataDir: dir, Listen: "127.0.0.1:0", AuditInterval: time.Second, Metrics: metrics, Log: logr.Discard(),
	})
	if err != nil {
		return fail(err)
	}
	if admin, err = connect(server); err != nil {
		return fail(err)
	}
	if err := platform.Install(ctx, admin); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := checkDrift(ctx); err != nil {
		code = fail(err)
	}
	cancel()
	if err := server.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "integration:", err)
	return 1
}

func connect(server *standalone.Server) (client.Client, error) {
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), quotav1alpha1.AddToScheme(s)); err != nil {
		return nil, err
	}
	config, err := adminOf(server)
	if err != nil {
		return nil, err
	}
	adminConfig = config
	return client.New(config, client.Options{Scheme: s})
}
