package replicas

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bursar/bursar/test/platform"
)

// laggard stands between a replica and the API server. On hold, it passes nothing from watches, and everything else.
type laggard struct {
	mu   sync.Mutex
	held chan struct{} // closed once watches go on
}

// newLaggard returns a laggard not on hold, and a kubeconfig through it.
func (c *cluster) newLaggard() (l *laggard, kubeconfig string) {
	c.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.plane.AdminKubeconfigPath())
	if err != nil {
		c.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		c.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		c.Fatal(err)
	}
	l = &laggard{held: make(chan struct{})}
	l.release()
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" {
				r.Body = &watched{r.Body, l}
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	c.Cleanup(func() {
		l.release()
		server.CloseClientConnections()
		server.Close()
	})
	kubeconfig = filepath.Join(c.TempDir(), "kubeconfig")
	content := clientcmdapi.NewConfig()
	content.Clusters["lagging"] = &clientcmdapi.Cluster{Server: server.URL}
	content.Contexts["lagging"] = &clientcmdapi.Context{Cluster: "lagging"}
	content.CurrentContext = "lagging"
	if err := clientcmd.WriteToFile(*content, kubeconfig); err != nil {
		c.Fatal(err)
	}
	return l, kubeconfig
}

// hold keeps back all events of watches.
func (l *laggard) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
}

func (l *laggard) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.held:
	default:
		close(l.held)
	}
}

// watched is the answer to a watch.
type watched struct {
	io.ReadCloser
	through *laggard
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.through.mu.Lock()
	held := w.through.held
	w.through.mu.Unlock()
	<-held
	return n, err
}

// TestReplicaThatLagsBehind asks a replica that has not heard of an effective policy. It admits nothing that the policy
// denies.
func TestReplicaThatLagsBehind(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	leader := c.leader()
	lag, kubeconfig := c.newLaggard()
	behind := c.startWith(kubeconfig)
	behind.WaitReady(t)
	lag.hold()
	c.protect(1)
	leader.Exclude()
	c.eventually(func() error {
		if leader.IsReady() {
			return errors.New("the leader is asked")
		}
		return nil
	})
	api, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	// A client asked to try again does so, unless something keeps it from it.
	err = api.CoreV1().RESTClient().Post().Namespace("default").Resource("configmaps").Body(platform.Map(0)).MaxRetries(0).Do(t.Context()).Error()
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "has not loaded the current policies") {
		t.Errorf("the replica that lags behind answers %v", err)
	}
	lag.release()
	c.eventually(func() error { return c.Create(t.Context(), platform.Map(1)) })
	if err := c.Create(t.Context(), platform.Map(2)); !platform.IsExceeded(err) {
		t.Errorf("beyond the quota, the replica that has caught up answers %v", err)
	}
	c.wantMaps(1)
}
