package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/kube/apiclient"
	"github.com/bursar/bursar/test/await"
)

// proxy forwards connections to an API server, as a load balancer does.
type proxy struct {
	net.Listener
	target string

	mu sync.Mutex
	// silence closes silenced: the connections at the time fall silent.
	silenced chan struct{}
}

// newProxy returns a proxy to the API server of a configuration, and the configuration for clients to go through the
// proxy.
func newProxy(t *testing.T, config *rest.Config) (*proxy, *rest.Config) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: listener, target: target.Host, silenced: make(chan struct{})}
	t.Cleanup(func() { _ = listener.Close() })
	go p.accept(t)
	config = rest.CopyConfig(config)
	config.Host = "https://" + listener.Addr().String()
	return p, config
}

func (p *proxy) accept(t *testing.T) {
	for {
		from, err := p.Accept()
		if err != nil {
			return // the test has ended
		}
		to, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.target)
		if err != nil {
			_ = from.Close()
			continue
		}
		p.mu.Lock()
		silenced := p.silenced
		p.mu.Unlock()
		context.AfterFunc(t.Context(), func() { _, _ = from.Close(), to.Close() })
		go forward(to, from, silenced)
		go forward(from, to, silenced)
	}
}

// forward copies until silence closes silenced. From then on it discards all input, and does not pass on the end of a
// side either.
func forward(to, from net.Conn, silenced <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-silenced:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

// silence stops passing data on the present connections.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.silenced)
	p.silenced = make(chan struct{})
}

// A connection may fall silent without an end, as when a node loses power or a NAT forgets it.
func TestSilentConnectionsAreReplaced(t *testing.T) {
	plane := startPlane(t)
	direct, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	brief := apiclient.Timeouts{Read: 2 * time.Second, Write: time.Second, Unacknowledged: time.Second, PingAfter: time.Second, Ping: time.Second}
	// With these settings, a deadline ends a write, rather than a missing sign of life.
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "5")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	clients := map[string]func(*rest.Config) (kubernetes.Interface, error){
		"for writes with each create": func(config *rest.Config) (kubernetes.Interface, error) {
			client, err := apiclient.NewHTTPClient(config, brief, &apiclient.Clock{})
			if err != nil {
				return nil, err
			}
			return kubernetes.NewForConfigAndClient(config, client)
		},
		"of controllers": func(config *rest.Config) (kubernetes.Interface, error) {
			return kubernetes.NewForConfig(apiclient.WithTimeouts(config, brief))
		},
	}
	for name, newClient := range clients {
		t.Run(name, func(t *testing.T) {
			proxy, config := newProxy(t, plane.Config())
			client, err := newClient(config)
			if err != nil {
				t.Fatal(err)
			}
			prefix := strings.Fields(name)[0] + "-"
			create := func(client kubernetes.Interface, name string) error {
				_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: prefix + name}}, metav1.CreateOptions{})
				return err
			}
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			listWatch := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default", fields.Everything())
			go cache.NewReflector(listWatch, &corev1.ConfigMap{}, store, 0).RunWithContext(t.Context())
			isSeen := func(name string) func() error {
				return func() error {
					if _, ok, _ := store.GetByKey("default/" + prefix + name); !ok {
						return fmt.Errorf("the watch has not brought %s", name)
					}
					return nil
				}
			}
			await.NoError(t, 30*time.Second, func() error { return ctrlclient.IgnoreAlreadyExists(create(client, "before")) })
			await.NoError(t, 30*time.Second, isSeen("before"))

			proxy.silence()
			err = create(client, "silent")
			if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("a write on a silent connection ended with %v, want its timeout, %s", err, brief.Write)
			}
			if err := create(direct, "after"); err != nil {
				t.Fatal(err)
			}
			await.NoError(t, 30*time.Second, isSeen("after"))
			await.NoError(t, 30*time.Second, func() error { return ctrlclient.IgnoreAlreadyExists(create(client, "again")) })
		})
	}
}
