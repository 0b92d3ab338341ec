// Package e2e drives standalone servers as their users and administrators would, and asserts the effects visible to
// these. The servers run in this process. Most tests share one server. All are in one package, because linking the API
// server of Kubernetes into a test binary takes a minute of CPU time.
package e2e

import (
	"context"
	"errors"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

var (
	// started is the shared server of the tests.
	started *server.Server
	// admin talks to it as its administrator, without a cache.
	admin client.WithWatch
	// bursar talks to it as Bursar. The API server does not call the webhooks about this user, so it may store invalid
	// objects.
	bursar client.Client
	// metrics are those of the server.
	metrics = prometheus.NewRegistry()
)

const (
	// atOnce is the number of concurrent tests without -parallel. They mostly wait, so it may be more than the number
	// of cores. With many more, the server answers too late for tests of present state.
	atOnce = "4"
	// requestTimeout is the server's. A reservation without an object lasts 10 s longer: longer than [soon], so a test
	// never passes because of an expired reservation.
	requestTimeout = 40 * time.Second
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	server.Main(m, standalone.Options{Metrics: metrics, Quota: config.Quota{
		RequestTimeout:     config.Duration{Duration: requestTimeout},
		UsageMetrics:       config.Metrics{ConsumerThresholds: config.ConsumerThresholds{MinPercent: 10}},
		ConsumerNamespaces: []config.ConsumerNamespace{{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Namespace: "{{name}}"}},
	}}, use, after)
}

// use declares the shared objects of the tests.
func use(ctx context.Context, s *server.Server) (err error) {
	started, admin = s, s.Admin
	if bursar, err = s.As(asOperator); err != nil {
		return err
	}
	return errors.Join(platform.Install(ctx, admin), checkAccepted(s.Config), admin.Create(ctx, unitRegistration()), startCompute(ctx))
}

// asOperator is Bursar's own user.
var asOperator = rest.ImpersonationConfig{UserName: apiserver.OperatorUser, Groups: []string{"system:masters"}}

// after ends everything started for all tests, and compares the ledgers of the server with their claims.
func after(ctx context.Context) error {
	ends.Lock()
	defer ends.Unlock()
	var errs []error
	for _, end := range ends.all {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, compute.stop(), checkLedgers(ctx))...)
}

// ends run after the last test.
var ends struct {
	sync.Mutex
	all []func() error
}

// atEnd has a function run after the last test.
func atEnd(end func() error) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, end)
}

// ownServers bounds the number of servers beside the shared ones. Each takes CPU time for its start, and two thousand
// goroutines. These take much memory with the race detector.
const ownServers = 2

var servers = semaphore.NewWeighted(ownServers)

// takeServers lets a test have so many servers of its own until it ends.
func takeServers(t testing.TB, n int64) {
	t.Helper()
	must(t, servers.Acquire(t.Context(), n))
	t.Cleanup(func() { servers.Release(n) })
}

// start starts a standalone server of a test's own, until the test ends.
func start(t *testing.T, options standalone.Options) *server.Server {
	t.Helper()
	takeServers(t, 1)
	s, err := server.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	return s
}

// unit is a resource type of the platform. Any service may claim it.
const unit = platform.Group + "/units"

func unitRegistration() *quotav1alpha1.ResourceRegistration {
	return &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "units"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: unit, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
		BaseUnit: "unit", DisplayUnit: "unit", UnitConversionFactor: 1, ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
	}}
}
