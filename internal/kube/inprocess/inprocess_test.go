package inprocess

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
)

const host = "127.0.0.1:1"

// elsewhere answers the requests over the network.
type elsewhere struct{}

func (elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	answer.WriteHeader(http.StatusTeapot)
	return answer.Result(), nil
}

// post sends a request through the transport of a server, and returns the status and the body of the answer.
func post(ctx context.Context, t *testing.T, s *Server, url string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("question"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.Transport(elsewhere{}).RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // in memory
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// echo answers with the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	if r.URL.Path == "/none" {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, r.Host+" "+r.RequestURI+" ")
	_, _ = io.Copy(w, r.Body)
})

func TestTransport(t *testing.T) {
	s := New(host)
	fails := func(when string) {
		t.Helper()
		if code, body, err := post(t.Context(), t, s, "https://"+host+"/a"); !errors.Is(err, errNone) {
			t.Errorf("%s it answers %d %q (%v), and it must not ask elsewhere", when, code, body, err)
		}
	}
	want := func(url string, code int, body string) {
		t.Helper()
		gotCode, gotBody, err := post(t.Context(), t, s, url)
		if err != nil || gotCode != code || strings.TrimSpace(gotBody) != body {
			t.Errorf("%s answers %d %q (%v), want %d %q", url, gotCode, gotBody, err, code, body)
		}
	}
	fails("before the start")
	s.Handle(echo, testr.New(t))
	want("https://"+host+"/a?timeout=1s", http.StatusOK, host+" /a?timeout=1s question")
	want("https://"+host+"/none", http.StatusNotFound, "404 page not found")
	want("https://127.0.0.1:2/a", http.StatusTeapot, "")
	s.Shutdown(t.Context())
	fails("after the end")
}

func TestHandlerPanics(t *testing.T) {
	s := New(host)
	s.Handle(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("on purpose") }), testr.New(t))
	if _, _, err := post(t.Context(), t, s, "https://"+host); err == nil || strings.Contains(err.Error(), "on purpose") {
		t.Errorf("a handler that panics makes the error %v", err)
	}
	s.Shutdown(t.Context()) // and waits for nothing
}

// A request ends with its context, and Shutdown waits for its handler for as long as it may.
func TestHandlerTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(host)
		const takes, timeout = time.Minute, time.Second
		s.Handle(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(takes) }), testr.New(t))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if _, _, err := post(ctx, t, s, "https://"+host); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != timeout {
			t.Errorf("after %s the error is %v", time.Since(began), err)
		}
		s.Shutdown(t.Context())
		if time.Since(began) != takes {
			t.Errorf("it was shut down after %s, want %s", time.Since(began), takes)
		}

		s.Handle(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(takes) }), testr.New(t))
		go func() { _, _, _ = post(t.Context(), t, s, "https://"+host) }()
		synctest.Wait()
		began = time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if s.Shutdown(ctx); time.Since(began) != timeout {
			t.Errorf("it was shut down after %s, want %s", time.Since(began), timeout)
		}
		time.Sleep(takes)
	})
}
