package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
)

// tickets is a ticket system as a receiver of notifications. At first it is broken.
type tickets struct {
	*httptest.Server
	key *standardwebhooks.Webhook

	mu sync.Mutex
	// failures is the number of further posts to fail.
	failures int
	// accepted counts the accepted events by the request and the type. invalid has the errors of all events.
	accepted map[string]int
	invalid  []error
}

func newTickets(t *testing.T, key *standardwebhooks.Webhook, failures int) *tickets {
	t.Helper()
	s := &tickets{key: key, failures: failures, accepted: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *tickets) ServeHTTP(w http.ResponseWriter, post *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(post.Body)
	event, request := cloudevents.New(), &quotav1alpha1.QuotaRequest{}
	if err == nil {
		err = errors.Join(s.key.Verify(body, post.Header), event.UnmarshalJSON(body))
	}
	if err == nil {
		err = event.DataAs(request)
	}
	if err != nil {
		s.invalid = append(s.invalid, err)
	}
	if s.failures > 0 {
		s.failures--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.accepted[request.Name+" "+event.Type()]++
	w.WriteHeader(http.StatusNoContent)
}

// wantEach compares the accepted events with the wanted ones, each once.
func (s *tickets) wantEach(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	each := map[string]int{}
	for _, event := range want {
		each[event] = 1
	}
	if diff := cmp.Diff(each, s.accepted); diff != "" || len(s.invalid) > 0 {
		t.Errorf("other events than wanted (-want +got), invalid: %v\n%s", s.invalid, diff)
	}
}

// waitNotified waits until the receiver has a state of a request.
func waitNotified(t *testing.T, api client.Client, request *quotav1alpha1.QuotaRequest, state string) {
	t.Helper()
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		if request.Status.Notified != state {
			return fmt.Errorf("the receiver was notified of %q, want %s: %+v", request.Status.Notified, state, request.Status.Conditions)
		}
		return nil
	})
}

func requestForUnits(name string) *quotav1alpha1.QuotaRequest {
	request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: config.DefaultSystemNamespace}}
	request.Spec = quotav1alpha1.QuotaRequestSpec{
		ConsumerRef: platform.Consumer("acme"), Reason: "a release",
		Requests: []quotav1alpha1.RequestedQuota{{ResourceType: unit, Increase: new(int64(2))}},
	}
	return request
}

// A receiver broken at first gets each state, even across a restart.
func TestRequestNotifications(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	must(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	key, err := standardwebhooks.NewWebhook(secret)
	must(t, err)
	receiver := newTickets(t, key, 2)
	options := standalone.Options{DataDir: dir, Quota: config.Quota{
		RequestNotifications: config.RequestNotifications{URL: receiver.URL + "/bursar", SecretFile: file},
	}}
	t.Run("first start", func(t *testing.T) {
		registry := prometheus.NewRegistry()
		options := options
		options.Metrics = registry
		s := start(t, options)
		must(t, platform.Install(t.Context(), s.Admin))
		create(t, s.Admin, unitRegistration())
		request := requestForUnits("first")
		eventually(t, func() error { return s.Admin.Create(t.Context(), request) })
		waitNotified(t, s.Admin, request, quotav1alpha1.ReasonPending)

		ann, err := s.As(rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:masters"}})
		must(t, err)
		decision := &quotav1alpha1.QuotaDecision{ObjectMeta: metav1.ObjectMeta{Name: "yes", Namespace: request.Namespace}}
		decision.Spec = quotav1alpha1.QuotaDecisionSpec{
			RequestRef: quotav1alpha1.DecidedRequestRef{Name: request.Name, UID: string(request.UID)}, Decision: quotav1alpha1.DecisionApprove,
		}
		must(t, ann.Create(t.Context(), decision))
		waitNotified(t, s.Admin, request, quotav1alpha1.ReasonApproved)
		receiver.wantEach(t, "first com.miloapis.quota.request.pending", "first com.miloapis.quota.request.approved")
		want := `
# HELP bursar_request_notifications_total Attempts to notify the receiver of a state of a QuotaRequest, by result: sent or failed.
# TYPE bursar_request_notifications_total counter
bursar_request_notifications_total{result="failed"} 2
bursar_request_notifications_total{result="sent"} 2
# HELP quota_request_decisions_total Ended QuotaRequests by result, and by decider: policy, people, or none for a withdrawn or expired one.
# TYPE quota_request_decisions_total counter
quota_request_decisions_total{by="people",result="Approved"} 1
`
		eventually(t, func() error {
			return testutil.GatherAndCompare(registry, strings.NewReader(want),
				"bursar_request_notifications_total", "quota_request_decisions_total", "quota_requests_open")
		})
	})
	t.Run("restart", func(t *testing.T) {
		api := start(t, options).Admin
		request := requestForUnits("second")
		eventually(t, func() error { return api.Create(t.Context(), request) })
		waitNotified(t, api, request, quotav1alpha1.ReasonPending)
		must(t, api.Patch(t.Context(), request, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"withdrawn":true}}`))))
		waitNotified(t, api, request, quotav1alpha1.ReasonWithdrawn)
		receiver.wantEach(t, "first com.miloapis.quota.request.pending", "first com.miloapis.quota.request.approved",
			"second com.miloapis.quota.request.pending", "second com.miloapis.quota.request.withdrawn")
	})
}
