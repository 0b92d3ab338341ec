package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/kube/inprocess"
	"github.com/bursar/bursar/test/await"
)

// admit answers reviews.
var admit = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	review.Serve(w, r, func(*admissionv1.AdmissionRequest, []byte) *admissionv1.AdmissionResponse { return review.Allowed() })
})

const create = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}`

// start serves a handler for the time of a test.
func start(t *testing.T, options Options, handler http.Handler) *Server {
	t.Helper()
	s, err := New(t.Context(), options, Dependencies{Log: logr.Discard()}, handler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// clientOf returns a client that verifies the server, with a certificate or nil.
func clientOf(t *testing.T, s *Server, own *tls.Certificate) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(s.Certificates.Bundle())
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// post sends a review to a path, and returns the status.
func post(t *testing.T, s *Server, client *http.Client, path string, body io.Reader) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.listener.Addr().String()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// trickle is a body that announces much and arrives byte by byte, until a test ends.
type trickle struct{ ended context.Context }

func (b trickle) Read(p []byte) (int, error) {
	select {
	case <-b.ended.Done():
		return 0, io.EOF
	case <-time.After(50 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	}
}

// TestTrickle sends bodies byte by byte, on many connections, with a path that somebody has learned. Reviews go on, and
// each body ends after a while.
func TestTrickle(t *testing.T) {
	s := start(t, Options{}, admit)
	path := s.Authenticator.PublishedPath("/enforce/1") + "?timeout=6s"
	const connections = 40
	ended := make(chan error, connections)
	for range connections {
		go func() {
			client := clientOf(t, s, nil)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.listener.Addr().String()+path, trickle{t.Context()})
			if err != nil {
				ended <- err
				return
			}
			request.ContentLength = 20 << 20
			response, err := client.Do(request)
			if err == nil {
				_ = response.Body.Close()
				if response.StatusCode < 400 {
					err = fmt.Errorf("a body that never ends is answered with %s", response.Status)
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}

	apiServer := clientOf(t, s, nil)
	for {
		code, err := post(t, s, apiServer, path, strings.NewReader(create))
		if err != nil || code != http.StatusOK {
			t.Fatalf("beside trickling bodies a review is answered with %d (%v)", code, err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			for range connections - 1 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			return
		default:
		}
	}
}

// TestArrivedInTime has a handler that works for longer than a body may take to arrive. The body has arrived, so the
// request goes on.
func TestArrivedInTime(t *testing.T) {
	s := start(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		select {
		case <-r.Context().Done():
			http.Error(w, "it ended", http.StatusInternalServerError)
		case <-time.After(arrivalTime + arrivalTime/10):
		}
	}))
	code, err := post(t, s, clientOf(t, s, nil), s.Authenticator.PublishedPath("/enforce/1")+"?timeout=6s", strings.NewReader(create))
	if err != nil || code != http.StatusOK {
		t.Errorf("it is answered with %d (%v)", code, err)
	}
}

// TestSilentConnections opens more connections than a server keeps without a request. It closes the oldest, and an API
// server still gets through.
func TestSilentConnections(t *testing.T) {
	s := start(t, Options{}, admit)
	var silent []net.Conn
	for range newcomersMax + 20 {
		c, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // the server may have closed it
		silent = append(silent, c)
	}
	code, err := post(t, s, clientOf(t, s, nil), s.Authenticator.PublishedPath("/enforce/1"), strings.NewReader(create))
	if err != nil || code != http.StatusOK {
		t.Errorf("beside silent connections a review is answered with %d (%v)", code, err)
	}
	await.NoError(t, time.Minute, func() error {
		_ = silent[0].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
			return fmt.Errorf("the oldest connection is still open: %v", err)
		}
		return nil
	})
}

// TestLateAnswer has a handler that ignores the end of its time. The caller gets an answer before it gives up.
func TestLateAnswer(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	s := start(t, Options{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	for _, timeout := range []string{"1s", "2s", "1.3s"} {
		code, err := post(t, s, clientOf(t, s, nil), s.Authenticator.PublishedPath("/enforce/1")+"?timeout="+timeout, strings.NewReader(create))
		if err != nil || code != http.StatusServiceUnavailable {
			t.Errorf("a late review with a timeout of %s is answered with %d (%v)", timeout, code, err)
		}
	}
}

// TestInProcess has an API server in the same process. Without a listener nobody else can call. With a listener other
// replicas can, by their certificate.
func TestInProcess(t *testing.T) {
	const host = "bursar-webhooks..svc:443"
	service := &Service{Name: "bursar-webhooks", Port: 443}
	t.Run("alone", func(t *testing.T) {
		s := start(t, Options{InProcess: inprocess.New(host), Service: service}, admit)
		if s.listener != nil {
			t.Errorf("it listens on %s", s.listener.Addr())
		}
		if config := s.ClientConfig("/enforce/1"); *config.Service.Path != "/enforce/1" || config.CABundle != nil {
			t.Errorf("the API server calls %+v", config)
		}
	})
	t.Run("with others", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, Options{InProcess: inprocess.New(host), Listener: listener, Service: service}, admit)
		own, err := s.Certificates.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		other, err := newSelfSigned(s.Host)
		if err != nil {
			t.Fatal(err)
		}
		peerPath := s.Authenticator.PeerPath("/enforce/1")
		for name, tt := range map[string]struct {
			reason string
			shown  *tls.Certificate
			path   string
			want   int
		}{
			"a replica":                   {"it has the certificate of all replicas", own, peerPath, http.StatusOK},
			"without a certificate":       {"the handshake fails, whatever the path", nil, peerPath, 0},
			"with another one":            {"anybody can sign a certificate for that name", &other.pair, peerPath, 0},
			"a replica on the API's path": {"the API server does not call by the listener", own, "/enforce/1", http.StatusNotFound},
		} {
			client := clientOf(t, s, tt.shown)
			client.Transport.(*http.Transport).TLSClientConfig.ServerName = s.Host
			code, err := post(t, s, client, tt.path, strings.NewReader(create))
			if code != tt.want || (err != nil) != (tt.want == 0) {
				t.Errorf("%s: %s: got %d (%v), want %d", name, tt.reason, code, err, tt.want)
			}
		}
	})
}
