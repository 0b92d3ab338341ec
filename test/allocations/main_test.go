// Package allocations drives a real standalone server, started in this process, as administrators and owners of
// projects would who spread a cap among their namespaces.
package allocations

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/server"
)

var (
	// started is the server that all tests share, and admin talks to it as its administrator.
	started *server.Server
	admin   client.Client
	// metrics are the server's.
	metrics = prometheus.NewRegistry()
)

func TestMain(m *testing.M) {
	server.Main(m, standalone.Options{Metrics: metrics, Quota: config.Quota{RequestTimeout: config.Duration{Duration: 20 * time.Second}}}, func(_ context.Context, s *server.Server) error {
		started, admin = s, s.Admin
		return nil
	}, nil)
}
