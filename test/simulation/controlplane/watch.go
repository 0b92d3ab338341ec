package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// watchStream is the body of the answer to a watch. It has the revisions as the server sees them.
type watchStream struct {
	server  *Server
	request *request
	run     int
	next    int64 // the version after the last one sent
	unread  []byte
}

var errWatchEnded = errors.New("the API server has ended")

func (s *Server) watch(r *request) *http.Response {
	if r.URL.Query().Has("sendInitialEvents") {
		return failed(&errorOf{422, metav1.StatusReasonInvalid, ""}) // like a server without streamed lists
	}
	since, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	s.store.mu.Lock()
	isCompacted := since < s.store.compacted
	s.store.mu.Unlock()
	if isCompacted {
		return failed(&errorOf{410, metav1.StatusReasonExpired, ""})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	response := answered(http.StatusOK, nil)
	response.ContentLength = -1
	response.Body = &watchStream{server: s, request: r, run: s.run, next: since + 1}
	return response
}

// Read implements [io.Reader]. It waits for the next event, until the request or the server ends.
func (w *watchStream) Read(into []byte) (int, error) {
	for len(w.unread) == 0 {
		if err := w.wait(w.request.Context()); err != nil {
			return 0, err
		}
	}
	n := copy(into, w.unread)
	w.unread = w.unread[n:]
	return n, nil
}

// wait waits until the server has seen more, and encodes it.
func (w *watchStream) wait(ctx context.Context) error {
	s := w.server
	s.mu.Lock()
	seen, news, hasEnded := s.seen, s.news, s.isDown || s.run != w.run
	s.mu.Unlock()
	switch {
	case hasEnded:
		return errWatchEnded
	case ctx.Err() != nil:
		return ctx.Err()
	case seen < w.next:
		select {
		case <-news:
		case <-ctx.Done():
		}
		return nil
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for ; w.next <= seen; w.next++ {
		if r := s.store.revisions[w.next-1]; r.Resource == w.request.Resource {
			w.unread = append(w.unread, eventOf(r, w.request.onlyMeta)...)
		}
	}
	return nil
}

func eventOf(r *Revision, onlyMeta bool) []byte {
	raw, err := json.Marshal(metav1.WatchEvent{Type: string(r.Event), Object: runtime.RawExtension{Raw: r.in(onlyMeta)}})
	if err != nil {
		panic(err)
	}
	return raw
}

// Close implements [io.Closer]. The context of the request ends the watch.
func (w *watchStream) Close() error { return nil }
