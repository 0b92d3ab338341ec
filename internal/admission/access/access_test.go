package access

import (
	"bytes"
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
	"testing"
	"time"

	"github.com/bursar/bursar/test/await"
)

// unreadBody fails the test on a read.
type unreadBody struct{ t *testing.T }

func (b unreadBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}

func TestGuard(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	gate := func(key Key) *Authenticator {
		return &Authenticator{key: key, grace: time.Hour, now: func() time.Time { return now }}
	}
	key := NewKey()
	g, other := gate(key), gate(NewKey())
	published, peer := g.PublishedPath("/enforce/1"), g.PeerPath("/alive")
	now = now.Add(rotation)
	next := g.PublishedPath("/enforce/1")
	if next == published {
		t.Error("a rotation publishes the same path")
	}
	var seen string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.URL.Path })
	ask := func(g *Authenticator, path string) (int, string) {
		seen = ""
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil)
		r.Body = io.NopCloser(unreadBody{t}) // no handler here reads it
		g.Guard(handler).ServeHTTP(w, r)
		return w.Code, seen
	}
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
		other.PublishedPath("/enforce/1"): {"every installation has a key of its own", 404, ""},
		other.PeerPath("/alive"):          {"every installation has a key of its own", 404, ""},
		published[:12] + "/enforce/1":     {"a part of the segment is no proof", 404, ""},
		"/" + published:                   {"the segment is the first one", 404, ""},
		"/3000001" + published[8:]:        {"the signature is of another number", 404, ""},
		"/peer" + next[len("/3000001"):]:  {"the signature of a number is not that of replicas", 404, ""},
	} {
		if code, seen := ask(g, path); code != tt.want || seen != tt.path {
			t.Errorf("%s: %s: got %d and path %q, want %d and %q", path, tt.reason, code, seen, tt.want, tt.path)
		}
	}

	g.grace = 0
	g.Observe(other.PublishedPath("/enforce/1"))
	g.Observe("/enforce/1")
	g.Observe(next)
	await.NoError(t, time.Minute, func() error {
		if code, _ := ask(g, published); code != 404 {
			return fmt.Errorf("an older segment is answered with %d", code)
		}
		return nil
	})
	for _, path := range []string{next, peer} {
		if code, _ := ask(g, path); code != 200 {
			t.Errorf("%s: got %d after an older one ended", path, code)
		}
	}
	now = now.Add(-2 * rotation)
	if got := g.PublishedPath("/enforce/1"); got != next {
		t.Errorf("a leader whose clock is behind publishes %s, after %s", got, next)
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
