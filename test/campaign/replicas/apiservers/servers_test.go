package apiservers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/etcd"
	"github.com/bursar/bursar/test/platform"
)

// TestServersAdmitExactly has many clients of two servers create at once, for a consumer with a tight limit, as soon as
// a policy made through one server is Ready.
func TestServersAdmitExactly(t *testing.T) {
	t.Parallel()
	const limit, clients, tries = 60, 12, 10
	url := etcd.Start(t)
	servers := []*server{start(t, url, t.TempDir()), start(t, url, t.TempDir())}
	platform.DeclareMaps(t, servers[0], limit)
	platform.ProtectMaps(t, servers[0], "ConfigMap")
	var admitted atomic.Int64
	var group errgroup.Group
	for n := range clients {
		group.Go(func() error {
			for i := range tries {
				switch err := servers[n%len(servers)].Create(t.Context(), platform.Map(n*tries+i)); {
				case err == nil:
					admitted.Add(1)
				case !platform.IsExceeded(err):
					t.Errorf("create: %v", err)
				}
			}
			return nil
		})
	}
	_ = group.Wait()
	if admitted.Load() != limit {
		t.Errorf("%d of %d creates were admitted, want %d", admitted.Load(), clients*tries, limit)
	}
	for _, s := range servers {
		if objects := wantMaps(t, s, limit); objects != limit {
			t.Errorf("%d objects exist, want %d", objects, limit)
		}
	}
}

// TestServersKnowEachOthersUsers shows each server the credentials issued by another.
func TestServersKnowEachOthersUsers(t *testing.T) {
	t.Parallel()
	url := etcd.Start(t)
	first, second := start(t, url, t.TempDir()), start(t, url, t.TempDir())
	admin := first.Config()
	admin.Host = second.Config().Host
	token := &authenticationv1.TokenRequest{}
	api, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := api.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	if token, err = api.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", token, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := rest.AnonymousClientConfig(first.Config())
	account.BearerToken = token.Status.Token
	if api, err = kubernetes.NewForConfig(account); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		review, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || review.Status.UserInfo.Username != "system:serviceaccount:default:default" {
			return fmt.Errorf("the first server answers a service account with a token of the second %v, %w", review, err)
		}
		return nil
	})
}

// TestPolicyWaitsForAllServers keeps one server from learning of a policy. The policy is not Ready until this server
// enforces it too.
func TestPolicyWaitsForAllServers(t *testing.T) {
	t.Parallel()
	const aWhile = 3 * time.Second // less than the time until a server counts as dead
	url := etcd.Start(t)
	leader, other := start(t, url, t.TempDir()), start(t, url, t.TempDir())
	platform.DeclareMaps(t, leader, 0)
	platform.ProtectMaps(t, leader, "Secret") // from here on all are in step
	other.Signal(syscall.SIGSTOP)
	defer other.Signal(syscall.SIGCONT)
	policy := platform.MapPolicy(t, leader, "ConfigMap")
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, aWhile, true, func(ctx context.Context) (bool, error) {
		return platform.IsReady(ctx, leader, policy) == nil, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a server stood still, the policy became %+v", policy.Status.Conditions)
	}
	other.Signal(syscall.SIGCONT)
	await.NoError(t, soon, func() error { return platform.IsReady(t.Context(), leader, policy) })
	if err := other.Create(t.Context(), platform.Map(0)); !platform.IsExceeded(err) {
		t.Errorf("as soon as the policy is Ready, the server that stood still answers %v", err)
	}
}

// TestServerThatStoodStillTooLong stops a server until the others take it for dead. Their policies no longer wait for
// it, and it ends when it wakes up.
func TestServerThatStoodStillTooLong(t *testing.T) {
	t.Parallel()
	url := etcd.Start(t)
	leader, other := start(t, url, t.TempDir()), start(t, url, t.TempDir())
	platform.DeclareMaps(t, leader, 0)
	other.Signal(syscall.SIGSTOP)
	defer other.Signal(syscall.SIGCONT)
	platform.ProtectMaps(t, leader, "ConfigMap")
	other.Signal(syscall.SIGCONT)
	if code := other.Wait(); code != 1 || !strings.Contains(other.Output(), "the hold on etcd at "+url+" was lost") {
		t.Errorf("the server that stood still ended with exit code %d:\n%s", code, other.Output())
	}
}
