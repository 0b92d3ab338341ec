// Package integration drives a real standalone server, started in this process, as its users
// would, and asserts what they would notice.
package integration

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// admin talks to the server as its administrator, without a cache.
var admin client.Client

// adminConfig reaches the server as its administrator.
var adminConfig *rest.Config

// adminKubeconfig is the path of the administrator's kubeconfig.
var adminKubeconfig string

func TestMain(m *testing.M) {
	server.Main(m, standalone.Options{Quota: config.Quota{AuditInterval: config.Duration{Duration: time.Second}}, Metrics: metrics}, func(ctx context.Context, s *server.Server) error {
		admin, adminConfig, adminKubeconfig = s.Admin, s.Config, s.Kubeconfig
		return platform.Install(ctx, admin)
	}, checkDrift)
}
