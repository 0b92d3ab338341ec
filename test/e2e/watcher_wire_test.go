package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wire is a connection to the API server that can be bad: it delays what a client sends and receives, ends watches, and
// refuses requests. It also records the requests.
type wire struct {
	http.RoundTripper

	mu       sync.Mutex
	requests []*http.Request
	watches  map[*watchStream]struct{}
	holds    []*hold
	refusals []*refusal
}

// hold keeps back requests, or parts of watches.
type hold struct {
	resource string
	// request selects lists of a path that ends with this text, or everything about a watch if it is "watch".
	request string
	// event selects events with this text. All later ones of the same watch wait behind it.
	event string
	// reached is closed once something waits, and released ends the hold.
	reached, released chan struct{}
	reach, release    sync.Once
}

func (h *hold) wait(closed <-chan struct{}) {
	h.reach.Do(func() { close(h.reached) })
	select {
	case <-h.released:
	case <-closed:
	}
}

// end lets everything pass. It may be called several times.
func (h *hold) end() { h.release.Do(func() { close(h.released) }) }

func (w *wire) add(h *hold) *hold {
	h.reached, h.released = make(chan struct{}), make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds = append(w.holds, h)
	return h
}

// holdEvents keeps back the events of a resource from the first one with a text.
func (w *wire) holdEvents(resource, text string) *hold {
	return w.add(&hold{resource: resource, event: text})
}

// holdLists keeps back lists of a path that ends with a text.
func (w *wire) holdLists(resource, path string) *hold {
	return w.add(&hold{resource: resource, request: path})
}

// holdWatches keeps back new watches.
func (w *wire) holdWatches(resource string) *hold {
	return w.add(&hold{resource: resource, request: "watch"})
}

func (w *wire) holdOf(applies func(*hold) bool) *hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.IndexFunc(w.holds, applies); i >= 0 {
		return w.holds[i]
	}
	return nil
}

// refusal answers some requests in place of the API server.
type refusal struct {
	applies func(*http.Request) bool
	status  metav1.Status
	// times is how often it does so, and done is closed after the last time.
	times int
	done  chan struct{}
}

// refuse answers so many of these requests with an error. The result is closed after the last one.
func (w *wire) refuse(times int, code int32, reason metav1.StatusReason, applies func(*http.Request) bool) <-chan struct{} {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "it is a test",
	}
	r := &refusal{applies: applies, status: status, times: times, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = append(w.refusals, r)
	return r.done
}

// refused returns the answer of a refusal, or nil.
func (w *wire) refused(request *http.Request) *http.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.refusals {
		if r.times == 0 || !r.applies(request) {
			continue
		}
		if r.times--; r.times == 0 {
			close(r.done)
		}
		body, err := json.Marshal(r.status)
		if err != nil {
			panic(err)
		}
		return &http.Response{
			Status: http.StatusText(int(r.status.Code)), StatusCode: int(r.status.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
		}
	}
	return nil
}

func isWatch(request *http.Request) bool { return request.URL.Query().Has("watch") }

// isWatchOf selects watches of a resource that do not begin with a list.
func isWatchOf(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return isWatch(r) && path.Base(r.URL.Path) == resource && !r.URL.Query().Has("sendInitialEvents")
	}
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.requests = append(w.requests, request)
	w.mu.Unlock()
	resource := path.Base(request.URL.Path)
	applies := func(h *hold) bool {
		if h.resource != resource || h.request == "" {
			return false
		}
		if isWatch(request) {
			return h.request == "watch"
		}
		return h.request != "watch" && strings.HasSuffix(request.URL.Path, h.request)
	}
	if h := w.holdOf(applies); h != nil {
		h.wait(request.Context().Done())
	}
	if response := w.refused(request); response != nil {
		return response, nil
	}

	response, err := w.RoundTripper.RoundTrip(request)
	if err == nil && isWatch(request) && response.StatusCode == http.StatusOK {
		stream := &watchStream{wire: w, resource: resource, body: response.Body, lines: bufio.NewReader(response.Body), closed: make(chan struct{})}
		stream.isText = strings.Contains(response.Header.Get("Content-Type"), "json")
		response.Body = stream
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watches[stream] = struct{}{}
	}
	return response, err
}

// sent returns the requests so far that are selected.
func (w *wire) sent(isSelected func(*http.Request) bool) []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var selected []*http.Request
	for _, r := range w.requests {
		if isSelected(r) {
			selected = append(selected, r)
		}
	}
	return selected
}

// cut ends the watches of a resource, as the API server does after some minutes.
func (w *wire) cut(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for stream := range w.watches {
		if stream.resource == resource {
			stream.end()
			delete(w.watches, stream)
		}
	}
}

// watchStream is the body of a watch.
type watchStream struct {
	wire     *wire
	resource string
	body     io.ReadCloser
	lines    *bufio.Reader
	isText   bool
	rest     []byte // of what was received
	closed   chan struct{}
	close    sync.Once
}

// Read implements [io.Reader]. It returns one event at a time if they are text.
func (s *watchStream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		received, err := s.receive(len(p))
		if len(received) == 0 {
			return 0, s.reason(err)
		}
		applies := func(h *hold) bool {
			return h.resource == s.resource && h.request == "" && bytes.Contains(received, []byte(h.event)) && !isClosed(h.released)
		}
		if h := s.wire.holdOf(applies); h != nil {
			h.wait(s.closed)
		}
		if isClosed(s.closed) {
			return 0, io.EOF
		}
		s.rest = received
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *watchStream) receive(atMost int) ([]byte, error) {
	if s.isText {
		return s.lines.ReadBytes('\n')
	}
	received := make([]byte, atMost)
	n, err := s.body.Read(received)
	return received[:n], err
}

func (s *watchStream) reason(err error) error {
	if isClosed(s.closed) {
		return io.EOF
	}
	return fmt.Errorf("read a watch: %w", err)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (s *watchStream) end() { s.close.Do(func() { close(s.closed); _ = s.body.Close() }) }

// Close implements [io.Closer].
func (s *watchStream) Close() error {
	s.end()
	return nil
}
