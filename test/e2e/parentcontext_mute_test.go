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

// mute is a control plane that takes requests and does not answer them.
type mute struct {
	*httptest.Server
	// lists is set if lists are answered all the same: there is nothing yet.
	lists bool
	// most is how many requests are made of it at a time.
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

// ServeHTTP holds a request until whoever made it has given up.
func (m *mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.lists && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "quota.miloapis.com/v1alpha1", "kind": "ResourceGrantList", "items": []}`))
		return
	}
	// Only once the body was read is the server told that the connection was closed.
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

// held returns the numbers of the requests that wait for an answer now.
func (m *mute) held() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.waiting))
}

// holds tells whether all of these requests still wait.
func (m *mute) holds(numbers []int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(numbers, func(n int) bool { return !m.waiting[n] })
}

// kubeconfig says how to reach it.
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
