// Package compute tests the example of a compute service, from end to end, on a standalone server.
package compute

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/service"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/server"
)

// soon is longer than anything takes on a busy machine.
const soon = 2 * time.Minute

var (
	started *server.Server
	// api talks to the server as its administrator.
	api client.WithWatch
	// compute is the service.
	compute *process
)

func TestMain(m *testing.M) {
	server.Main(m, standalone.Options{Quota: config.Quota{ConsumerNamespaces: []config.ConsumerNamespace{{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Namespace: "{{name}}"}}}}, func(ctx context.Context, s *server.Server) (err error) {
		started = s
		types := s.Admin.Scheme()
		if err := computev1alpha1.AddToScheme(types); err != nil {
			return err
		}
		if api, err = client.NewWithWatch(s.Config, client.Options{Scheme: types}); err != nil {
			return err
		}
		if err := install(ctx); err != nil {
			return err
		}
		who := rest.CopyConfig(s.Config)
		who.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:compute:compute", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
		compute = &process{config: who}
		compute.start()
		return nil
	}, func(context.Context) error { return compute.stop() })
}

// process is the service, which can be stopped and started again.
type process struct {
	config *rest.Config
	cancel context.CancelFunc
	// ended has why it ended, and is closed then.
	ended chan error
}

func (p *process) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.ended = cancel, make(chan error, 1)
	ended := p.ended
	go func() {
		defer close(ended)
		ended <- service.Run(ctx, service.Options{Config: p.config, Log: logr.Discard()})
	}()
}

func (p *process) stop() error {
	p.cancel()
	if err := <-p.ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
