package e2e

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/platform"
)

// TestOnlyTheLeaderWatchesViews runs two replicas. The other replica neither lists nor watches buckets and effective
// grants, until the leader ends and it publishes them itself.
func TestOnlyTheLeaderWatchesViews(t *testing.T) {
	t.Parallel()
	s := newStanding(t)
	var leader, other requests
	stop := s.runReplica(&leader)
	platform.DeclareMaps(t, s.somebody, 2)
	must(t, s.Create(t.Context(), s.grant("one", 5)))
	s.wantLimit("one", 5)
	if got := viewsRead(&leader); len(got) < 2 {
		t.Fatalf("the leader asked %q, want at least a watch of each kind", got)
	}

	stopOther := s.runReplica(&other)
	eventually(t, func() error {
		if !other.have(quotav1alpha1.GroupName, "resourcegrants", "watch", "") {
			return fmt.Errorf("the other replica does not follow grants yet")
		}
		return nil
	})
	s.raise("one", 6)
	s.wantLimit("one", 6)
	if got := viewsRead(&other); len(got) > 0 {
		t.Errorf("a replica that does not lead asked %q", got)
	}

	stop()
	s.raise("one", 7)
	s.wantLimit("one", 7)
	if got := viewsRead(&other); len(got) < 2 {
		t.Errorf("the next leader asked %q, want at least a watch of each kind", got)
	}
	stopOther()
}

// viewsRead returns the kinds of requests for buckets or effective grants.
func viewsRead(asked *requests) (kinds []string) {
	for _, resource := range []string{"allowancebuckets", "effectiveresourcegrants"} {
		for _, verb := range []string{"get", "list", "watch"} {
			if asked.have(quotav1alpha1.GroupName, resource, verb, "") {
				kinds = append(kinds, verb+" "+resource)
			}
		}
	}
	return kinds
}

// runReplica runs one of several replicas until the caller calls stop, and returns once it is ready.
func (s *standing) runReplica(asked *requests) (stop func()) {
	s.Helper()
	config := rest.CopyConfig(s.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{asked, next} })
	listener, err := net.Listen("tcp", "localhost:0")
	must(s, err)
	return runOptions(s.T, operator.Options{
		Config: config, InstallCRDs: true,
		LeaderElection: &operator.LeaderElection{LeaseDuration: 15 * time.Second, RenewDeadline: 12 * time.Second, RetryPeriod: 100 * time.Millisecond},
		Webhooks: server.Options{
			Listener: listener, URL: fmt.Sprintf("https://localhost:%d", listener.Addr().(*net.TCPAddr).Port),
			PeerAddress: listener.Addr().String(), SecretName: "bursar-webhooks-tls", ManageSecret: true,
		},
	})
}

// raise changes the amount of a consumer's grant.
func (s *standing) raise(name string, amount int64) {
	s.Helper()
	grant := s.grant(name, 0)
	must(s, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the leader writes the status
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		grant.Spec.Allowances[0].Buckets[0].Amount = amount
		return s.Update(s.Context(), grant)
	}))
}
