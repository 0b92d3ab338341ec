package access

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
)

// unreadBody fails the test on a read.
type unreadBody struct{ t *testing.T }

func (b unreadBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}

// clocked returns an authenticator with a clock that the test moves.
func clocked(key Key, now *time.Time) *Authenticator {
	a := NewAuthenticator(key, ClientCertificates{})
	a.now = func() time.Time { return *now }
	return a
}

// ask sends a request to a path through the guard, and returns the status, and the path as the handler sees it.
func ask(t *testing.T, a *Authenticator, path string) (code int, seen string) {
	t.Helper()
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.URL.Path })
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil)
	r.Body = io.NopCloser(unreadBody{t}) // no handler here reads it
	a.Guard(handler).ServeHTTP(w, r)
	return w.Code, seen
}

func TestGuard(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	key := NewKey()
	a, other := clocked(key, &now), clocked(NewKey(), &now)
	published, peer := a.PublishedPath("/enforce/1"), a.PeerPath("/alive")
	segment, _ := split(published)
	peerSegment, _ := split(peer)
	now = now.Add(rotation)
	next := clocked(key, &now).PublishedPath("/enforce/1")
	nextSegment, _ := split(next)
	for path, tt := range map[string]struct {
		reason string
		want   int
		path   string
	}{
		published:                         {"the API server learns the path from the configuration", 200, "/enforce/1"},
		next:                              {"a replica that has not seen it published accepts it", 200, "/enforce/1"},
		peer:                              {"another replica has the key", 200, "/alive"},
		"/enforce/1":                      {"a caller without a segment is a stranger", 404, ""},
		"/":                               {"nobody learns what there is", 404, ""},
		"/" + segment:                     {"a segment alone opens nothing", 404, ""},
		other.PublishedPath("/enforce/1"): {"every installation has a key of its own", 404, ""},
		other.PeerPath("/alive"):          {"every installation has a key of its own", 404, ""},
		published[:12] + "/enforce/1":     {"a part of the segment is no proof", 404, ""},
		"/" + published:                   {"the segment is the first one", 404, ""},
		"/1800000601" + published[11:]:    {"the signature is of another number", 404, ""},
		"/peer" + nextSegment[10:] + "/enforce/1": {"the signature of a number is not that of replicas", 404, ""},
		"/" + segment + "/quotahistory":           {"a segment opens its own handler only", 404, ""},
		"/" + segment + "/enforce/2":              {"a version that nobody published is made up", 404, ""},
		"/" + segment + "/enforce/1/":             {"the whole path is signed", 404, ""},
		"/" + segment + "/alive":                  {"an API server does not ask what replicas ask", 404, ""},
		"/" + peerSegment + "/exposed/1":          {"a segment of replicas opens its own path only, too", 404, ""},
	} {
		if code, seen := ask(t, a, path); code != tt.want || seen != tt.path {
			t.Errorf("%s: %s: got %d and path %q, want %d and %q", path, tt.reason, code, seen, tt.want, tt.path)
		}
	}
}

// TestOldSegmentsEnd observes a newer number. An older one is accepted for the lag of a watch.
func TestOldSegmentsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := NewKey()
		a := NewAuthenticator(key, ClientCertificates{})
		published := a.PublishedPath("/enforce/1")
		a.Observe(published)
		time.Sleep(rotation)
		next := a.PublishedPath("/enforce/1")
		if next == published {
			t.Fatal("a rotation publishes the same path")
		}
		a.Observe(NewAuthenticator(NewKey(), ClientCertificates{}).PublishedPath("/enforce/1"))
		a.Observe("/enforce/1")
		a.Observe(next)

		time.Sleep(grace - time.Second)
		if code, _ := ask(t, a, published); code != 200 {
			t.Errorf("an API server that has not learned of the next number is answered with %d", code)
		}
		time.Sleep(2 * time.Second)
		if code, _ := ask(t, a, published); code != 404 {
			t.Errorf("an older segment is answered with %d", code)
		}
		for _, path := range []string{next, a.PeerPath("/alive")} {
			if code, _ := ask(t, a, path); code != 200 {
				t.Errorf("%s: got %d after an older one ended", path, code)
			}
		}
	})
}

// TestNumbersOnlyGrow has a leader whose clock is behind that of the leader before.
func TestNumbersOnlyGrow(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	key := NewKey()
	published := clocked(key, &now).PublishedPath("/enforce/1")
	now = now.Add(-2 * rotation)
	a := clocked(key, &now)
	a.Observe(published)
	next := a.PublishedPath("/enforce/1")
	if want := "/1800000001-"; !strings.HasPrefix(next, want) {
		t.Errorf("a leader whose clock is behind publishes %s after %s, want %s...", next, published, want)
	}
	if again := a.PublishedPath("/enforce/1"); again != next {
		t.Errorf("it publishes %s and then %s", next, again)
	}
}

// TestFailedCall gives up a call. The error shows the path to a user, so the leader publishes another one. However many
// calls fail, it does so once in a few seconds.
func TestFailedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAuthenticator(NewKey(), ClientCertificates{})
		a.Observe(a.PublishedPath("/enforce/1"))
		publisher := &publisher{authenticator: a}
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			_ = (&Exposures{Authenticator: a, Publisher: publisher, Replicas: publisher, Log: testr.New(t)}).Run(ctx)
		}()
		time.Sleep(2 * grace) // Run itself exposes the number that it finds
		atStart, _ := publisher.reported()

		began := time.Now()
		for range 100 {
			giveUp(a, a.PublishedPath("/enforce/1"))
			time.Sleep(grace / 20)
		}
		stop()
		synctest.Wait()

		woken, asked := publisher.reported()
		woken = woken[len(atStart):]
		if len(woken) == 0 || woken[0].Sub(began) > grace {
			t.Errorf("after failed calls another path was published at %v", woken)
		}
		if most := int(time.Since(began)/grace) + 1; len(woken) > most {
			t.Errorf("100 failed calls published %d paths, want at most %d", len(woken), most)
		}
		if len(asked) == 0 || asked[0] == "" {
			t.Errorf("other replicas, one of them the leader, learned of %q", asked)
		}
	})
}

// giveUp calls a path through the guard, and does not wait for the answer.
func giveUp(a *Authenticator, path string) {
	ctx, cancel := context.WithCancel(context.Background())
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })
	a.Guard(handler).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, path, nil))
}

// publisher is a leader, and records the replicas' reports.
type publisher struct {
	authenticator *Authenticator

	mu    sync.Mutex
	woken []time.Time
	asked []string
}

// reported returns when the leader published another path, and the paths that the replicas were asked.
func (p *publisher) reported() (woken []time.Time, asked []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.woken), slices.Clone(p.asked)
}

func (p *publisher) WakeWebhooks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.authenticator.newest
	p.authenticator.Observe(p.authenticator.PublishedPath("/enforce/1"))
	if p.authenticator.newest != before {
		p.woken = append(p.woken, time.Now())
	}
}

func (p *publisher) AskAll(_ context.Context, path string, _ []byte) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, path)
	return nil
}

// TestExposedElsewhere tells a replica of a number that another one knows to be exposed.
func TestExposedElsewhere(t *testing.T) {
	a := NewAuthenticator(NewKey(), ClientCertificates{})
	a.Observe(a.PublishedPath("/enforce/1"))
	mux := http.NewServeMux()
	mux.Handle(a.ExposedHandler())
	for path, want := range map[string]int{exposedPath + "none": 400, exposedPath + strconv.FormatInt(a.newest, 10): 200} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != want {
			t.Errorf("%s is answered with %d, want %d", path, w.Code, want)
		}
	}
	if number, _, _ := a.exposure(); number != a.newest {
		t.Errorf("the exposed number is %d, want %d", number, a.newest)
	}
}

// TestForPeers admits no segment that an API server would find published.
func TestForPeers(t *testing.T) {
	key := NewKey()
	a := ForPeers(key)
	if got := a.PublishedPath("/enforce/1"); got != "/enforce/1" {
		t.Errorf("an API server in this process calls %s", got)
	}
	for path, want := range map[string]int{
		a.PeerPath("/enforce/1"): 200, "/enforce/1": 404, NewAuthenticator(key, ClientCertificates{}).PublishedPath("/enforce/1"): 404,
	} {
		if code, _ := ask(t, a, path); code != want {
			t.Errorf("%s: got %d, want %d", path, code, want)
		}
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	key := NewKey()
	if printed := fmt.Sprintf("%v %s %+v", key, key, struct{ Key Key }{key}); printed != "[key] [key] {Key:[key]}" {
		t.Errorf("a log shows the key: %s", printed)
	}
}

func TestClientCertificate(t *testing.T) {
	authority, stranger := newAuthority(t), newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(authority.certificate)
	for name, tt := range map[string]struct {
		reason string
		shown  *tls.Certificate
		names  []string
		want   int
	}{
		"none":            {"nobody vouches for the caller", nil, []string{"kube-apiserver"}, 404},
		"unnamed":         {"the authority signs for others, too", authority.sign(t, "kube-apiserver"), nil, 404},
		"named":           {"this is the name of the API server", authority.sign(t, "kube-apiserver"), []string{"kube-apiserver"}, 200},
		"another name":    {"somebody else has a certificate of that authority", authority.sign(t, "alice"), []string{"kube-apiserver"}, 404},
		"other authority": {"the handshake fails", stranger.sign(t, "kube-apiserver"), []string{"kube-apiserver"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			certificates := ClientCertificates{Authorities: pool, Names: tt.names}
			server := httptest.NewUnstartedServer(NewAuthenticator(NewKey(), certificates).Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			certificates.Configure(server.TLS)
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			if tt.shown != nil {
				// The client sends it even if the server does not request its authority.
				client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tt.shown, nil }
			}
			response, err := client.Post(server.URL+"/enforce/1", "application/json", bytes.NewReader(nil))
			if tt.want == 0 {
				if err == nil {
					t.Errorf("%s: got %s", tt.reason, response.Status)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // there is nothing in it
			if response.StatusCode != tt.want {
				t.Errorf("%s: got %s", tt.reason, response.Status)
			}
		})
	}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	content, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(content)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

func (a *authority) sign(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotAfter: time.Now().Add(time.Hour)}
	content, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{content}, PrivateKey: key}
}
