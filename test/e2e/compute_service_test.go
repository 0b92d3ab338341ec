package e2e

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/service"
	"github.com/bursar/bursar/test/await"
)

// compute is the service of the example. It runs beside all tests.
var compute *computeService

// startCompute installs the example of a compute service, and starts the service.
func startCompute(ctx context.Context) error {
	if err := computev1alpha1.AddToScheme(admin.Scheme()); err != nil {
		return err
	}
	if err := installCompute(ctx); err != nil {
		return err
	}
	who := rest.CopyConfig(started.Config)
	who.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:compute:compute", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	compute = &computeService{config: who}
	compute.start()
	return nil
}

// computeService is the service. Tests can stop it and start it again.
type computeService struct {
	config *rest.Config
	cancel context.CancelFunc
	// ended receives the reason for its end, and closes then.
	ended chan error
}

func (p *computeService) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.ended = cancel, make(chan error, 1)
	ended := p.ended
	go func() {
		defer close(ended)
		ended <- service.Run(ctx, service.Options{Config: p.config, Log: logr.Discard()})
	}()
}

func (p *computeService) stop() error {
	p.cancel()
	if err := await.End(func() error { return <-p.ended }); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
