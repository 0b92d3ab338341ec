package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// about remembers requests with the name of one of the consumers in their address.
type about struct {
	http.RoundTripper
	consumers []string
	mu        *sync.Mutex
	requests  *[]string
}

func (a about) RoundTrip(r *http.Request) (*http.Response, error) {
	if slices.ContainsFunc(a.consumers, func(name string) bool { return strings.Contains(r.URL.String(), name) }) {
		a.mu.Lock()
		defer a.mu.Unlock()
		*a.requests = append(*a.requests, r.Method+" "+r.URL.RequestURI())
	}
	return a.RoundTripper.RoundTrip(r)
}

// standing is an API server with consumers. Each has a grant and a claim.
type standing struct {
	*testing.T
	// Client is that of Bursar's own user, without calls of webhooks. somebody is another user's.
	client.Client
	somebody client.Client
	config   *rest.Config
}

// TestStartAsksAboutNobody starts the operator with consumers whose grants, ledgers, claims and buckets agree. The
// operator makes no request about any of them, and notices each difference of other consumers.
func TestStartAsksAboutNobody(t *testing.T) {
	t.Parallel()
	s := newStanding(t)
	config := s.config
	stop := runOperator(t, config)
	platform.DeclareMaps(t, s.somebody, 2)
	var same []string
	for n := range 12 {
		same = append(same, fmt.Sprintf("same-%02d", n))
	}
	consumers := append(slices.Clone(same), "raised", "lost-grant", "lost-bucket", "lost-ledger")
	for _, name := range consumers {
		must(s, s.Create(t.Context(), s.grant(name, 5)))
	}
	for _, name := range consumers {
		s.wantLimit(name, 5)
		must(s, s.somebody.Create(t.Context(), s.claim(name)))
	}
	for _, name := range consumers {
		s.wantSettled(name)
	}
	stop()

	s.raise("raised", 7)
	must(s, s.Delete(t.Context(), s.grant("lost-grant", 0)))
	must(s, s.Delete(t.Context(), s.bucket("lost-bucket")))
	must(s, s.Delete(t.Context(), s.ledger("lost-ledger")))
	must(s, s.Create(t.Context(), s.grant("new", 3)))

	var mu sync.Mutex
	var requests []string
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return about{next, same, &mu, &requests} })
	registry := prometheus.NewRegistry()
	defer runOptions(t, operator.Options{Config: counted, Metrics: registry})()
	for name, limit := range map[string]int64{"raised": 7, "lost-grant": 0, "lost-bucket": 5, "lost-ledger": 5, "new": 3} {
		s.wantLimit(name, limit)
	}
	// The operator works in order: after this grant, it has visited all others.
	must(s, s.Create(t.Context(), s.grant("last", 3)))
	s.wantLimit("last", 3)
	mu.Lock()
	defer mu.Unlock()
	if len(requests) > 0 {
		t.Errorf("%d requests about %d consumers of whom nothing has changed:\n%s", len(requests), len(same), strings.Join(requests, "\n"))
	}
}

// silent does not answer requests for grants.
type silent struct {
	http.RoundTripper
	asked chan<- struct{}
}

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/resourcegrants") {
		return s.RoundTripper.RoundTrip(r)
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestStopBeforeTheLists stops an operator while its API server does not answer.
func TestStopBeforeTheLists(t *testing.T) {
	t.Parallel()
	s := newStanding(t)
	runOperator(t, s.config)() // it installs the CRDs
	asked := make(chan struct{}, 1)
	config := rest.CopyConfig(s.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return silent{next, asked} })
	o, err := operator.New(operator.Options{Config: config})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	await.Receive(t, soon, asked)
	stop()
	must(t, await.Receive(t, soon, ended))
}

func newStanding(t *testing.T) *standing {
	t.Helper()
	reached, err := server.Connect(startPlane(t).AdminKubeconfigPath())
	must(t, err)
	api, err := reached.As(somebody)
	must(t, err)
	return &standing{T: t, Client: reached.Admin, config: reached.Config, somebody: api}
}

func (s *standing) grant(name string, amount int64) *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: platform.Consumer(name),
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: platform.MapsType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
		},
	}
}

// claim is a claim of a service.
func (s *standing) claim(name string) *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: platform.Consumer(name),
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: platform.MapsType, Amount: 1}},
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Namespace: metav1.NamespaceDefault, Name: "none"},
		},
	}
}

func (s *standing) bucket(name string) *quotav1alpha1.AllowanceBucket {
	return &quotav1alpha1.AllowanceBucket{ObjectMeta: metav1.ObjectMeta{
		Name: naming.Bucket(platform.Consumer(name), platform.MapsType, nil), Namespace: config.DefaultSystemNamespace,
	}}
}

func (s *standing) effective(name string) *quotav1alpha1.EffectiveResourceGrant {
	return &quotav1alpha1.EffectiveResourceGrant{ObjectMeta: metav1.ObjectMeta{
		Name: naming.EffectiveGrant(platform.Consumer(name), platform.MapsType), Namespace: config.DefaultSystemNamespace,
	}}
}

func (s *standing) ledger(name string) *quotav1alpha1.ConsumerLedger {
	return &quotav1alpha1.ConsumerLedger{ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(platform.Consumer(name))}}
}

// wantLimit waits until the bucket of a consumer shows this limit.
func (s *standing) wantLimit(name string, limit int64) {
	s.Helper()
	eventually(s.T, func() error {
		bucket := s.bucket(name)
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(bucket), bucket); err != nil {
			return err
		}
		if bucket.Status.Limit != limit {
			return fmt.Errorf("%s has the limit %d, want %d", name, bucket.Status.Limit, limit)
		}
		return nil
	})
}

// wantSettled waits until the ledger has observed the one claim of a consumer, the grant is active, and the views show
// the claim. The operator writes the effective grant after the bucket.
func (s *standing) wantSettled(name string) {
	s.Helper()
	eventually(s.T, func() error {
		ledger, bucket, grant, effective := s.ledger(name), s.bucket(name), s.grant(name, 0), s.effective(name)
		for _, object := range []client.Object{ledger, bucket, grant, effective} {
			if err := s.Get(s.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
		}
		if observedIn(ledger) != 1 || len(ledger.Spec.Reservations) > 0 || bucket.Status.ClaimCount != 1 {
			return fmt.Errorf("the claim of %s is not observed and shown: %+v, %+v", name, ledger.Spec, bucket.Status)
		}
		if !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) || effective.Status.TotalAllocated != 1 {
			return fmt.Errorf("the quota of %s is not shown: %+v, %+v", name, grant.Status, effective.Status)
		}
		return nil
	})
}
