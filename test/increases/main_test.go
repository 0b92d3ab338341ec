// Package increases drives a real standalone server, started in this process, as administrators would who give
// namespaces quotas and raise them, and asserts what they and the users of the namespaces would notice.
package increases

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/server"
)

var (
	// started is the server that all tests share.
	started *server.Server
	// admin talks to the server as its administrator, without a cache.
	admin client.Client
	// bursar talks to it as Bursar itself, whom the webhooks do not ask about: so it stores what was stored
	// before there were webhooks.
	bursar client.Client
	// kubeconfig is how kubectl reaches it.
	kubeconfig string
)

func TestMain(m *testing.M) {
	server.Main(m, standalone.Options{}, func(_ context.Context, s *server.Server) (err error) {
		started, admin, kubeconfig = s, s.Admin, s.Kubeconfig
		bursar, err = s.As(rest.ImpersonationConfig{UserName: apiserver.OperatorUser, Groups: []string{"system:masters"}})
		return err
	}, nil)
}
