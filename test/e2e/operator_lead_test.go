package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	admission "github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/replica"
)

// candidate is one of several replicas behind a balancer. Its requests for the lead may be cut off.
type candidate struct {
	*operator.Operator
	// isCutOff makes its requests for the Lease of the leader fail.
	isCutOff atomic.Bool
	// isHidden takes it from the balancer, which has seen it so often.
	isHidden   atomic.Bool
	seenHidden atomic.Int32
	stop       context.CancelFunc
	ended      chan error
	// mu guards the lines of its log.
	mu  sync.Mutex
	log []string
}

// leaderRequests fails the requests of a candidate for the Lease of the leader while it is cut off.
type leaderRequests struct {
	http.RoundTripper
	of *candidate
}

func (l leaderRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.of.isCutOff.Load() && strings.HasSuffix(r.URL.Path, "/leases/"+naming.LeaderLease) {
		return nil, errors.New("the request is lost")
	}
	return l.RoundTripper.RoundTrip(r)
}

// runCandidate runs a replica until the end of the test, and returns once it is ready.
func (s *standing) runCandidate(balancer *replica.Balancer) *candidate {
	s.Helper()
	c := &candidate{ended: make(chan error, 1)}
	api := rest.CopyConfig(s.config)
	api.Wrap(func(next http.RoundTripper) http.RoundTripper { return leaderRequests{next, c} })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(s, err)
	c.Operator, err = operator.New(operator.Options{
		Config: api, InstallCRDs: true, Log: funcr.New(c.record, funcr.Options{}),
		LeaderElection: &operator.LeaderElection{LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond},
		Webhooks: admission.Options{
			Listener: listener, PeerAddress: listener.Addr().String(), URL: balancer.URL(), SecretName: naming.CertificateSecret, ManageSecret: true,
		},
	})
	must(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	c.stop = cancel
	go func() { c.ended <- c.Run(ctx) }()
	balancer.Add(listener.Addr().String(), func(context.Context) error {
		if c.isHidden.Load() {
			c.seenHidden.Add(1)
			return errors.New("it is hidden")
		}
		return c.Ready()
	})
	await.NoError(s.T, time.Minute, c.Ready)
	return c
}

// record keeps a line of its log.
func (c *candidate) record(prefix, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, prefix+" "+line)
}

// end stops the replica. An ordinary stop is no error, and logs none about the lead.
func (c *candidate) end(t *testing.T) {
	t.Helper()
	c.stop()
	if err := await.End(func() error { return <-c.ended }); err != nil {
		t.Errorf("the replica ended: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.log {
		if strings.Contains(line, "leader election lost") {
			t.Errorf("the log has an error about the lead: %s", line)
		}
	}
}

// leader returns who holds the Lease of the leader, or "".
func (s *standing) leader() (string, error) {
	var lease coordinationv1.Lease
	err := s.Get(s.Context(), client.ObjectKey{Namespace: config.DefaultSystemNamespace, Name: naming.LeaderLease}, &lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", client.IgnoreNotFound(err)
	}
	return *lease.Spec.HolderIdentity, nil
}

// awaitLeader waits until another replica than before leads, and returns its name.
func (s *standing) awaitLeader(before string) (now string) {
	s.Helper()
	eventually(s.T, func() error {
		leader, err := s.leader()
		if err != nil {
			return err
		}
		if leader == "" || leader == before {
			return fmt.Errorf("%q leads, want another replica", leader)
		}
		now = leader
		return nil
	})
	return now
}

// wantDecided has one replica get all requests, and checks that it denies a map beyond the two of acme.
func (s *standing) wantDecided(balancer *replica.Balancer, hidden *candidate) {
	s.Helper()
	hidden.seenHidden.Store(0)
	hidden.isHidden.Store(true)
	defer hidden.isHidden.Store(false)
	eventually(s.T, func() error {
		if hidden.seenHidden.Load() < 2 {
			return errors.New("the other replica may still get requests")
		}
		return nil
	})
	balancer.Cut()
	eventually(s.T, func() error {
		if err := s.somebody.Create(s.Context(), platform.Map(3), client.DryRunAll); !platform.IsExceeded(err) {
			return fmt.Errorf("a third map of two: got %w, want it denied", err)
		}
		return nil
	})
}

// A replica that loses the lead does not end: it goes on deciding, and may lead again. Each term begins with what
// another leader has left.
func TestLosesAndRegainsTheLead(t *testing.T) {
	t.Parallel()
	s := newStanding(t)
	balancer, err := replica.NewBalancer()
	must(t, err)
	t.Cleanup(balancer.Close)
	first := s.runCandidate(balancer)
	platform.DeclareMaps(t, s.somebody, 2)
	platform.ProtectMaps(t, s.somebody, "ConfigMap")
	for n := range 2 {
		eventually(t, func() error { return s.somebody.Create(t.Context(), platform.Map(n+1)) })
	}
	must(t, s.Create(t.Context(), s.grant("raised", 5)))
	s.wantLimit("raised", 5)
	one := s.awaitLeader("")
	second := s.runCandidate(balancer)

	first.isCutOff.Store(true)
	other := s.awaitLeader(one)
	s.wantDecided(balancer, second)
	s.raise("raised", 7)
	must(t, s.Delete(t.Context(), s.bucket("acme")))
	s.wantLimit("raised", 7)
	s.wantLimit("acme", 2)

	first.isCutOff.Store(false)
	second.isCutOff.Store(true)
	if again := s.awaitLeader(other); again != one {
		t.Errorf("%s leads, want the first leader %s", again, one)
	}
	s.wantDecided(balancer, first)
	s.raise("raised", 9)
	must(t, s.Create(t.Context(), s.grant("new", 3)))
	must(t, s.Delete(t.Context(), s.bucket("acme")))
	s.wantLimit("raised", 9)
	s.wantLimit("new", 3)
	s.wantLimit("acme", 2)
	platform.ProtectMaps(t, s.somebody, "Secret")

	s.awaitSlice()
	second.end(t)
	first.end(t)
	s.wantNoSlices()
	if leader, err := s.leader(); err != nil || leader != "" {
		t.Errorf("%q still leads after the end of all replicas (%v), want the lead released", leader, err)
	}
}

// awaitSlice creates maps until a replica holds quota of acme in reserve.
func (s *standing) awaitSlice() {
	s.Helper()
	s.raise("acme", 1000)
	s.wantLimit("acme", 1000)
	next := 3
	eventually(s.T, func() error {
		if err := s.somebody.Create(s.Context(), platform.Map(next)); err != nil {
			return err
		}
		next++
		ledger := s.ledger("acme")
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(ledger), ledger); err != nil {
			return err
		}
		if len(ledger.Spec.Slices) == 0 {
			return errors.New("nobody holds a slice")
		}
		return nil
	})
}

// wantNoSlices checks that nobody holds quota in reserve.
func (s *standing) wantNoSlices() {
	s.Helper()
	var ledgers quotav1alpha1.ConsumerLedgerList
	must(s, s.List(s.Context(), &ledgers))
	for i := range ledgers.Items {
		if spec := &ledgers.Items[i].Spec; len(spec.Slices) > 0 {
			s.Errorf("%s still has the slices %+v", spec.ConsumerRef.Name, spec.Slices)
		}
	}
}
