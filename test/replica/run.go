package replica

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/process"
)

// timeout bounds how long a test waits for a replica. It is generous, because other tests run beside it.
const timeout = 2 * time.Minute

// Run starts a replica of this version, as [RunBinary] does.
func Run(t testing.TB, b *Balancer, kubeconfig, systemNamespace string) *Replica {
	t.Helper()
	binary, err := process.BuildOperator()
	if err != nil {
		t.Fatal(err)
	}
	return RunBinary(t, binary, b, kubeconfig, config.Operator{Quota: config.Quota{SystemNamespace: systemNamespace}})
}

// RunBinary starts a replica for the time of a test, with short times for the election of a leader. They are still
// longer than a busy machine keeps the API server from answering. An empty system namespace is the default one. The API
// server gives a request [process.RequestTimeout]. It need not be ready yet.
func RunBinary(t testing.TB, binary string, b *Balancer, kubeconfig string, configuration config.Operator) *Replica {
	t.Helper()
	configuration.RequestTimeout = config.Duration{Duration: process.RequestTimeout}
	configuration.LeaderElection = config.LeaderElection{
		LeaseDuration: config.Duration{Duration: 8 * time.Second}, RenewDeadline: config.Duration{Duration: 6 * time.Second},
		RetryPeriod: config.Duration{Duration: 300 * time.Millisecond},
	}
	configuration.Webhooks.ShutdownDelay = &config.Duration{Duration: time.Second}

	r, err := Start(b, Options{
		Binary: binary, Dir: t.TempDir(), Kubeconfig: kubeconfig, Configuration: configuration,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Kill()
		if t.Failed() {
			t.Logf("the end of the log of a replica:\n%s", process.End(r.Output(t)))
		}
	})
	return r
}

// WaitReady waits until the balancer has found the replica ready, and fails the test if it ends before.
func (r *Replica) WaitReady(t testing.TB) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		if r.hasEnded() {
			t.Fatal("a replica ended before it was ready")
		}
		return r.IsReady(), nil
	})
	if err != nil {
		t.Fatalf("a replica was not ready after %s", timeout)
	}
}

// Resume lets a leader go on that stood still until another led. It waits until the leader has noticed, and answers
// again as a replica without the lead.
func (r *Replica) Resume(t testing.TB) {
	t.Helper()
	r.Signal(syscall.SIGCONT)
	await.NoError(t, timeout, func() error {
		if !strings.Contains(r.Output(t), "this replica no longer leads") {
			return errors.New("the leader that stood still has not noticed that another leads")
		}
		return nil
	})
	r.WaitReady(t)
}

func (r *Replica) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// Output is the output of the process so far.
func (r *Replica) Output(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(r.Log())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Leader waits until one of the running replicas has become the latest leader, and returns it. After the end of a
// leader it waits for the next one.
func Leader(t testing.TB, replicas []*Replica) *Replica {
	t.Helper()
	var leader *Replica
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		latest := ""
		leader = nil
		for _, r := range replicas {
			for line := range strings.Lines(r.Output(t)) {
				var entry struct{ Time, Msg string }
				if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "this replica leads" && entry.Time > latest {
					latest, leader = entry.Time, r
				}
			}
		}
		return leader != nil && !leader.hasEnded(), nil
	})
	if err != nil {
		t.Fatalf("no replica leads after %s", timeout)
	}
	return leader
}
