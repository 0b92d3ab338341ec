package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/replica"
	testserver "github.com/bursar/bursar/test/server"
)

// Replicas share a directory. Each writes files of its own, and together these are one journal, even after the end of
// one replica.
func TestJournalOfReplicas(t *testing.T) {
	t.Parallel()
	plane := startPlane(t)
	reached, err := testserver.Connect(plane.AdminKubeconfigPath())
	must(t, err)
	balancer, err := replica.NewBalancer()
	must(t, err)
	t.Cleanup(balancer.Close)
	r := &recorded{T: t, server: reached, dir: t.TempDir()}
	stop := map[string]func(){}
	for _, name := range []string{"a", "b"} {
		stop[name] = r.startReplica(name, balancer, plane.Config())
	}
	defer stop["b"]()
	r.declare()
	who := &actors{of: map[string]string{}}
	r.work(1, who)
	eventually(t, r.addsUp)
	stop["a"]()
	r.work(2, who)
	eventually(t, r.addsUp)
	entries, err := r.entries()
	must(t, err)
	r.checkActors(entries, who)
	for i := range entries {
		if entries[i].Kind == journal.Opened && entries[i].Opening.Lost > 0 {
			t.Errorf("%d entries are lost before %s", entries[i].Opening.Lost, entries[i].ID())
		}
	}
}

// startReplica runs one of several operators behind a balancer until the caller calls stop.
func (r *recorded) startReplica(name string, balancer *replica.Balancer, api *rest.Config) (stop func()) {
	r.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(r, err)
	options := operator.Options{
		Config: api, InstallCRDs: true, Replica: name,
		LeaderElection: &operator.LeaderElection{LeaseDuration: 15 * time.Second, RenewDeadline: 12 * time.Second, RetryPeriod: 100 * time.Millisecond},
		Webhooks: server.Options{
			Listener: listener, PeerAddress: listener.Addr().String(), URL: balancer.URL(), SecretName: naming.CertificateSecret, ManageSecret: true,
		},
		Quota: config.Quota{Journal: config.Journal{Sink: config.JournalFile, File: &config.FileJournal{Directory: r.dir}}},
	}
	o, err := operator.New(options)
	must(r, err)
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	balancer.Add(listener.Addr().String(), func(ctx context.Context) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return o.Ready()
	})
	eventually(r, o.Ready)
	return func() {
		cancel()
		if err := await.End(func() error { return <-ended }); err != nil && !errors.Is(err, context.Canceled) {
			r.Error(fmt.Errorf("the operator ended: %w", err))
		}
	}
}
