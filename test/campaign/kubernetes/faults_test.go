package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/test/history/recorder"
	"github.com/bursar/bursar/test/platform"
	operator "github.com/bursar/bursar/test/replica"
)

// TestFaults has three replicas of the operator and two API servers on one etcd. It kills, stops, cuts off or replaces
// one after the other, while clients create and delete at the limit of one consumer and for many others. It checks
// every stored revision of the ledgers, and in the end that no grant is lost.
func TestFaults(t *testing.T) {
	f := newFaults(t, newWorld(t))
	f.conflicts()
	f.startLoad()
	f.disturb("nothing happens", func() {})
	f.killLeader()
	f.killPreferred()
	f.stopLeader()
	f.disturb("every connection to the API servers is cut", f.servers.Cut)
	f.killServer()
	f.disturb("etcd is killed and comes back", func() {
		f.Etcd.Kill()
		f.Etcd.Start()
		f.Etcd.WaitReady()
	})
	f.loseWatches()
	f.rotateAndUpgrade()
	f.load.stop()
	f.wantLedgers()
	f.wantNothingForbidden(t)
}

const (
	hotLimit, otherLimit = 12, 4
	others               = 30
)

// faults is the disturbed cluster, seen from the team of the hot consumer.
type faults struct {
	*team
	others []*team
	// apis are clients of the API servers, and servers stands for the Service between them and the replicas.
	apis     []client.Client
	servers  *operator.Balancer
	recorder *recorder.Recorder
	load     *load
}

// newFaults adds an API server, three replicas and the teams to a world without replicas.
func newFaults(t *testing.T, w *world) *faults {
	t.Helper()
	w.StartAPIServer()
	f := &faults{servers: newBalancer(t), recorder: recorder.Start(t, w.EtcdClient()), load: newLoad(t)}
	for _, server := range w.Servers {
		f.apis = append(f.apis, newClient(t, server))
		api, err := kubernetes.NewForConfig(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		f.servers.Add(strings.TrimPrefix(server.URL, "https://"), func(ctx context.Context) error {
			return api.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		})
	}
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range config.Clusters {
		server.Server = f.servers.URL()
	}
	w.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.startReplica(t)
	}
	w.setUp(t)
	newTeam := func(name string, limit int64) *team {
		n := w.newTeam(t, name)
		n.grant(map[string]int64{pods: limit, memory: 1000 * mebibyte})
		n.eventually(func() error {
			return n.Get(n.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		})
		return n
	}
	f.team = newTeam("team-hot", hotLimit)
	for i := range others {
		f.others = append(f.others, newTeam(fmt.Sprint("team-", i), otherLimit))
	}
	return f
}

// conflicts has clients of the hot consumer alone at work, and logs how often replicas got in each other's
// way.
func (f *faults) conflicts() {
	f.Helper()
	committed, conflicts := f.commits()
	granted := f.recorder.Grants(f.name)
	for id := range 10 {
		f.load.run(id, f.apis, true, 2, 400*time.Millisecond, f.team)
	}
	f.eventually(func() error {
		if got := f.recorder.Grants(f.name) - granted; got < 200 {
			return fmt.Errorf("%d reservations were made", got)
		}
		return nil
	})
	grants := float64(f.recorder.Grants(f.name) - granted)
	committedAfter, conflictsAfter := f.commits()
	f.Logf("the hot consumer: %.0f grants, %.0f commits, %.4f conflicts per grant", grants, committedAfter-committed, (conflictsAfter-conflicts)/grants)
}

func (f *faults) startLoad() {
	for i := range 10 {
		f.load.run(100+i, f.apis, false, 3, 300*time.Millisecond, f.others...)
	}
}

// commits returns the numbers of writes of ledgers, and of those in vain, by all replicas.
func (f *faults) commits() (committed, conflicts float64) {
	f.Helper()
	for _, r := range f.replicas {
		page := get(f, r.Endpoints()+"/metrics")
		for outcome, sum := range map[string]*float64{"committed": &committed, "conflict": &conflicts} {
			match := regexp.MustCompile(`bursar_ledger_commits_total\{outcome="` + outcome + `"\} (\S+)`).FindStringSubmatch(page)
			if match != nil {
				value, _ := strconv.ParseFloat(match[1], 64)
				*sum += value
			}
		}
	}
	return committed, conflicts
}

// disturb does something under load. Then it starts the ended replicas again, as a kubelet would.
func (f *faults) disturb(what string, action func()) {
	f.Helper()
	f.load.disturb(f.team, what, action)
	for _, r := range slices.Clone(f.replicas) {
		select {
		case <-r.Ended():
			f.Logf("  a replica has ended with exit code %d", r.ExitCode())
			f.replace(r)
		default:
		}
	}
}

func (f *faults) leader() *operator.Replica { return operator.Leader(f.T, f.replicas) }

// replace takes an ended replica from the list, and starts another.
func (f *faults) replace(r *operator.Replica) {
	f.Helper()
	<-r.Ended()
	r.Kill()
	f.replicas = slices.DeleteFunc(f.replicas, func(other *operator.Replica) bool { return other == r })
	f.startReplica(f.T)
}

func (f *faults) killLeader() {
	leader := f.leader()
	f.disturb("the leader is killed", leader.Kill)
}

// killPreferred kills the preferred replica of the hot ledger, while another one leads.
func (f *faults) killPreferred() {
	var preferred *operator.Replica
	for preferred = f.preferred(); preferred == f.leader(); preferred = f.preferred() {
		preferred.Signal(syscall.SIGTERM) // and the next preferred is another
		f.replace(preferred)
	}
	f.disturb("the preferred replica of the hot ledger is killed", preferred.Kill)
}

// preferred returns the preferred replica of the hot ledger: the one with the heaviest Lease.
func (f *faults) preferred() *operator.Replica {
	f.Helper()
	var preferred *operator.Replica
	f.eventually(func() error {
		var leases coordinationv1.LeaseList
		if err := f.List(f.Context(), &leases, client.InNamespace(system), client.HasLabels{quotav1alpha1.GroupName + "/replica"}); err != nil {
			return err
		}
		var most uint64
		known := 0
		for _, lease := range leases.Items {
			for _, r := range f.replicas {
				if lease.Annotations[quotav1alpha1.GroupName+"/address"] != r.Webhooks() {
					continue
				}
				known++
				if weight := xxhash.Sum64String(lease.Name + "/" + naming.Ledger(platform.Consumer(f.name))); weight > most {
					preferred, most = r, weight
				}
			}
		}
		if known != len(f.replicas) {
			return fmt.Errorf("%d of %d replicas have a Lease", known, len(f.replicas))
		}
		return nil
	})
	return preferred
}

// stopLeader has the leader stand still until another leads, and go on then.
func (f *faults) stopLeader() {
	stopped := f.leader()
	f.disturb("the leader stands still", func() { stopped.Signal(syscall.SIGSTOP) })
	f.disturb("another leads", func() {
		f.eventually(func() error {
			if f.leader() == stopped {
				return errors.New("the one that stands still leads")
			}
			return nil
		})
	})
	f.disturb("the one that stood still goes on without the lead", func() { stopped.Resume(f) })
}

func (f *faults) killServer() {
	f.disturb("an API server is killed", func() { f.Servers[0].Kill() })
	f.disturb("it comes back", func() {
		f.Servers[0].Start()
		f.Servers[0].WaitReady()
	})
}

// loseWatches compacts the history and restarts all API servers, so no watch can resume where it ended.
func (f *faults) loseWatches() {
	f.disturb("no API server knows the history", func() {
		for _, server := range f.Servers {
			server.Kill()
		}
		if _, err := f.EtcdClient().Compact(f.Context(), f.recorder.Revision()); err != nil {
			f.Fatal(err)
		}
		for _, server := range f.Servers {
			server.Start()
		}
		for _, server := range f.Servers {
			server.WaitReady()
		}
	})
}
