package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	admission "github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
)

// lateList answers requests for the ConfigMaps of all namespaces only once open is closed.
type lateList struct {
	http.RoundTripper
	open <-chan struct{}
	// looks counts the looks at the leader's Lease, and leases gets each creation of a Lease.
	looks  *atomic.Int32
	leases chan<- struct{}
}

func (l lateList) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Path == "/api/v1/configmaps":
		select {
		case <-l.open:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases/"+naming.LeaderLease):
		l.looks.Add(1)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/leases"):
		l.leases <- struct{}{}
	}
	return l.RoundTripper.RoundTrip(r)
}

// TestJoinAfterTheLists checks that another replica stays preferred to one that has yet to list the objects that count:
// it could end none of their requests. It is ready before that. Once it is alone, it joins without the list.
func TestJoinAfterTheLists(t *testing.T) {
	t.Parallel()
	s := newStanding(t)
	stop := s.runReplica(&requests{made: map[request]bool{}})
	platform.DeclareMaps(t, s.somebody, 2)
	platform.ProtectMaps(t, s.somebody, "ConfigMap")

	for _, isAlone := range []bool{false, true} {
		open, leases := make(chan struct{}), make(chan struct{}, 10)
		var looks atomic.Int32
		config := rest.CopyConfig(s.config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lateList{next, open, &looks, leases} })
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		end := runOptions(t, operator.Options{
			Config: config, InstallCRDs: true,
			LeaderElection: &operator.LeaderElection{LeaseDuration: 15 * time.Second, RenewDeadline: 12 * time.Second, RetryPeriod: 100 * time.Millisecond},
			Webhooks: admission.Options{
				Listener: listener, PeerAddress: listener.Addr().String(), URL: "https://" + listener.Addr().String(),
				SecretName: naming.CertificateSecret, ManageSecret: true,
			},
		})

		ready := looks.Load()
		eventually(t, func() error {
			if since := looks.Load() - ready; since < 20 {
				return fmt.Errorf("the replica has looked at the leader's Lease %d times, want 20", since)
			}
			return nil
		})
		select {
		case <-leases:
			t.Error("the replica has joined the others before it has listed the objects")
		default:
		}
		if isAlone {
			stop()
		} else {
			close(open)
		}
		await.Receive(t, soon, leases)
		end()
	}
}
