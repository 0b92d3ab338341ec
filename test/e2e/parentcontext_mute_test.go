package e2e

import (
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// mute is a control plane without answers to requests.
type mute struct {
	*httptest.Server
	// lists is set if lists get an answer all the same, an empty one.
	lists bool
	// most is the maximum number of concurrent requests to it.
	most   int
	closed chan struct{}

	mu      sync.Mutex
	taken   int
	waiting map[int]bool
}

func startMute(t *testing.T, lists bool, most int) *mute {
	t.Helper()
	m := &mute{lists: lists, most: most, closed: make(chan struct{}), waiting: map[int]bool{}}
	m.Server = httptest.NewTLSServer(m)
	t.Cleanup(func() {
		close(m.closed)
		m.Close()
	})
	return m
}

// ServeHTTP holds a request until its client gives up.
func (m *mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.lists && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "quota.miloapis.com/v1alpha1", "kind": "ResourceGrantList", "items": []}`))
		return
	}
	// The server learns of a closed connection only after reading the body.
	_, _ = io.Copy(io.Discard, r.Body)
	m.mu.Lock()
	m.taken++
	number := m.taken
	m.waiting[number] = true
	m.mu.Unlock()
	select {
	case <-r.Context().Done():
	case <-m.closed:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, number)
}

// held returns the numbers of the requests waiting for an answer now.
func (m *mute) held() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.waiting))
}

// holds reports whether all of these requests still wait.
func (m *mute) holds(numbers []int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(numbers, func(n int) bool { return !m.waiting[n] })
}

// kubeconfig is for clients of the mute control plane.
func (m *mute) kubeconfig(t *testing.T) []byte {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw})
	config := clientcmdapi.NewConfig()
	config.Clusters["mute"] = &clientcmdapi.Cluster{Server: m.URL, CertificateAuthorityData: authority}
	config.AuthInfos["bursar"] = &clientcmdapi.AuthInfo{Token: "token"}
	config.Contexts["mute"] = &clientcmdapi.Context{Cluster: "mute", AuthInfo: "bursar"}
	config.CurrentContext = "mute"
	written, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return written
}
