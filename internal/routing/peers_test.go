package routing

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

func consumer(n int) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{Kind: "Organization", Name: fmt.Sprint("c", n)}
}

// know makes replicas of the names. They know of each other.
func know(names ...string) []*Peers {
	var all []*Peers
	for _, name := range names {
		p := &Peers{Log: logr.Discard()}
		p.init()
		p.name, p.active = leasePrefix+name, true
		for _, other := range names {
			p.observe(leaseOf(other, "", time.Now()))
		}
		all = append(all, p)
	}
	return all
}

func leaseOf(name, address string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leasePrefix + name, Namespace: "system", Annotations: map[string]string{quotav1alpha1.AnnotationAddress: address}},
		Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(renewed))},
	}
}

// preferredOf returns the preferred replica of each consumer.
func preferredOf(all []*Peers, consumers int) []string {
	kept := make([]string, consumers)
	for n := range kept {
		for _, p := range all {
			if p.IsPreferred(consumer(n)) {
				kept[n] += strings.TrimPrefix(p.name, leasePrefix)
			}
		}
	}
	return kept
}

func TestEveryConsumerHasOnePreferredReplica(t *testing.T) {
	const consumers = 300
	before, count := preferredOf(know("a", "b", "c"), consumers), map[string]int{}
	for _, preferred := range before {
		count[preferred]++
	}
	if len(count) != 3 || count["a"] < consumers/5 || count["b"] < consumers/5 || count["c"] < consumers/5 {
		t.Errorf("of %d ledgers the replicas keep %v, want each of a, b and c to keep about a third", consumers, count)
	}
	for n, preferred := range preferredOf(know("a", "b"), consumers) {
		if preferred != before[n] && before[n] != "c" {
			t.Errorf("when c goes, a ledger goes from %s to %s", before[n], preferred)
		}
	}
	var nobody *Peers
	if !nobody.IsPreferred(consumer(0)) {
		t.Error("who has no peers keeps all")
	}
}

// TestWhoIsAlive has one other replica, which keeps most ledgers as long as it is alive.
func TestWhoIsAlive(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		happen func(p *Peers)
		want   bool // whether the other keeps anything
	}{
		"renewed": {"it goes on", func(p *Peers) {
			time.Sleep(aliveFor)
			p.observe(leaseOf("b", "", time.Now()))
			time.Sleep(aliveFor)
		}, true},
		"seen again": {"its Lease was not renewed", func(p *Peers) {
			since := p.others[leasePrefix+"b"].renewTime
			time.Sleep(aliveFor)
			p.observe(leaseOf("b", "", since.Time))
			time.Sleep(extraWaitMax)
		}, false},
		"silent": {"it is gone", func(*Peers) { time.Sleep(aliveFor + extraWaitMax) }, false},
		"answers": {"only its renewals do not get through", func(p *Peers) {
			time.Sleep(aliveFor + extraWaitMax)
			p.others[leasePrefix+"b"].answered = time.Now()
			time.Sleep(aliveFor)
		}, true},
		"only answers": {"it does not reach the API server", func(p *Peers) {
			time.Sleep(forgottenAfter + 1)
			p.others[leasePrefix+"b"].answered = time.Now()
		}, false},
		"deleted": {"it said so", func(p *Peers) { p.forget(leaseOf("b", "", time.Now())) }, false},
		"suspect": {"it did not answer", func(p *Peers) { p.recordAnswer(p.others[leasePrefix+"b"], false) }, false},
		"trusted again": {"that is a while ago", func(p *Peers) {
			p.recordAnswer(p.others[leasePrefix+"b"], false)
			time.Sleep(suspectMin)
		}, true},
		"suspect for longer": {"it does so again and again", func(p *Peers) {
			p.recordAnswer(p.others[leasePrefix+"b"], false)
			p.recordAnswer(p.others[leasePrefix+"b"], false)
			time.Sleep(suspectMin)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := know("a", "b")[0]
				tt.happen(p)
				if alive := len(p.alive()) > 0; alive != (tt.want || strings.HasPrefix(name, "suspect")) {
					t.Errorf("%s: others are there: %t", tt.reason, alive)
				}
				if got := strings.Contains(strings.Join(preferredOf([]*Peers{p}, 50), "."), ".."); got != tt.want {
					t.Errorf("%s: the other keeps some ledgers: %t, want %t", tt.reason, got, tt.want)
				}
			})
		})
	}
}

// TestFollowAndAdvertise has a replica come to know of an earlier one, and both end.
func TestFollowAndAdvertise(t *testing.T) {
	client := fake.NewClientset()
	run := func() (p *Peers, end func()) {
		p = &Peers{Client: client, Namespace: "system", Address: "host:1", Certificates: bundle(nil), Log: logr.Discard()}
		p.init()
		ctx, cancel := context.WithCancel(t.Context())
		if err := p.Follow(ctx); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Advertise(ctx, t.Context())
		}()
		return p, func() {
			cancel()
			<-done
		}
	}
	leases := client.CoordinationV1().Leases("system")
	b, endB := run()
	eventually(t, "a replica shows that it is there", func() bool {
		_, err := leases.Get(t.Context(), b.name, metav1.GetOptions{})
		return err == nil
	})
	a, endA := run()
	a.mu.Lock()
	if other := a.others[b.name]; other == nil || other.address != "host:1" {
		t.Errorf("of the first the next one knows %+v", other)
	}
	a.mu.Unlock()
	if len(a.alive()) == 0 || len(b.alive()) > 0 {
		t.Errorf("others are there for the next one: %t, were for the first: %t", len(a.alive()) > 0, len(b.alive()) > 0)
	}
	endB()
	endA()
	if left, err := leases.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) != 0 {
		t.Errorf("replicas that ended leave the Leases %v, %v", left.Items, err)
	}
}

// Replicas that miss the signs of another one at the same instant do not all take its consumers at the same instant.
func TestExtraWaitDiffers(t *testing.T) {
	all, waits := know("a", "b", "c", "d", "e"), map[time.Duration]bool{}
	for _, p := range all[1:] {
		waits[p.others[leasePrefix+"a"].extraWait] = true
	}
	if len(waits) != len(all)-1 {
		t.Errorf("%d replicas give up another one after %d different times, want each after its own", len(all)-1, len(waits))
	}
}

// A replica counts as alive while it answers by itself, although its Lease is not renewed. Another process at its
// address does not count.
func TestAsksSilentReplicas(t *testing.T) {
	answering := &Peers{Log: logr.Discard()}
	answering.init()
	server := httptest.NewTLSServer(answering.Alive())
	defer server.Close()
	p := &Peers{Log: logr.Discard(), ServerName: "example.com", Certificates: bundle(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))}
	p.init()
	former := leasePrefix + "former"
	for _, name := range []string{strings.TrimPrefix(answering.name, leasePrefix), "former"} {
		p.observe(leaseOf(name, server.Listener.Addr().String(), time.Now()))
	}
	for _, other := range p.others {
		other.renewed = time.Now().Add(-forgottenAfter / 2)
	}
	if len(p.alive()) > 0 {
		t.Error("replicas without any sign count as alive")
	}

	eventually(t, "the replica itself answers", func() bool {
		for name, address := range p.overdue() {
			p.ask(t.Context(), name, address)
		}
		return len(p.alive()) > 0
	})
	if alive := p.alive(); len(alive) != 1 || alive[0] != p.others[answering.name] || p.others[former].isAlive(time.Now()) {
		t.Errorf("%d replicas are alive, want only the one that answered with its own name", len(alive))
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("not within a minute: %s", what)
	}
}

func TestForward(t *testing.T) {
	var probes atomic.Int32
	still := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the handler does not notice a gone client
		if r.URL.Path == AlivePath {
			probes.Add(1)
		}
		<-r.Context().Done()
	}
	for name, tt := range map[string]struct {
		reason string
		answer http.HandlerFunc
		want   string
	}{
		"answers": {"the preferred replica decides", func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, IsForwarded(r), r.URL.Path, r.URL.Query().Get("timeout") != "")
		}, "true/enforcetrue"},
		"fails":        {"what is no answer does not count", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, ""},
		"stands still": {"nobody waits for it until the end", still, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(tt.answer)
			defer server.Close()
			// A busy machine may take longer than aliveTimeout for any step, so it gets more than one chance.
			await.NoError(t, time.Minute, func() error {
				p := &Peers{Log: logr.Discard(), ServerName: "example.com", Certificates: bundle(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))}
				p.init()
				p.observe(leaseOf("b", server.Listener.Addr().String(), time.Now()))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, ok := p.Forward(ctx, consumer(0), "/enforce", []byte("{}"))
				if string(got) != tt.want || ok != (tt.want != "") {
					return fmt.Errorf("%s: got %q, %t, want %q", tt.reason, got, ok, tt.want)
				}
				if p.IsPreferred(consumer(0)) == ok {
					return fmt.Errorf("%s: it is asked again at once: %t, want %t", tt.reason, !p.IsPreferred(consumer(0)), ok)
				}
				if name == "stands still" && probes.Load() == 0 {
					return errors.New("who stands still was not asked whether it is alive")
				}
				return nil
			})
		})
	}
}

// bundle are authorities, in PEM.
type bundle []byte

func (b bundle) Bundle() []byte { return b }

// A review that one replica cannot decide goes to the next.
func TestForwardToAny(t *testing.T) {
	ignorant := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer ignorant.Close()
	decides := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, IsForwarded(r), r.URL.Path)
	}))
	defer decides.Close()
	certificates := bundle(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: decides.Certificate().Raw}))

	for name, tt := range map[string]struct {
		others []*httptest.Server
		want   string
	}{
		"one of two":   {[]*httptest.Server{ignorant, decides}, "true/enforce"},
		"none of them": {[]*httptest.Server{ignorant}, ""},
		"no others":    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Peers{Log: logr.Discard(), ServerName: "example.com", Certificates: certificates}
			p.init()
			for n, other := range tt.others {
				p.observe(leaseOf(fmt.Sprint("replica-", n), other.Listener.Addr().String(), time.Now()))
			}
			// A busy machine may take longer than anyTimeout.
			await.NoError(t, time.Minute, func() error {
				if got, ok := p.ForwardToAny(t.Context(), "/enforce", []byte("{}")); string(got) != tt.want || ok != (tt.want != "") {
					return fmt.Errorf("got %q, %t, want %q", got, ok, tt.want)
				}
				return nil
			})
		})
	}
}

func (bundle) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("no server here asks for it")
}
