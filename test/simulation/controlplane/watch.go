package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watchStream is the body of the answer to a watch. It has the revisions as the server sees them.
type watchStream struct {
	server  *Server
	request *request
	run     int
	matches func(*Revision) bool
	next    int64 // the version after the last one sent
	// bookmark is the time of the next bookmark, if the client takes any. owesBookmark is set from then until it is sent.
	bookmark     time.Time
	owesBookmark bool
	unread       []byte
}

var errWatchEnded = errors.New("the API server has ended")

func (s *Server) watch(r *request) *http.Response {
	if r.URL.Query().Has("sendInitialEvents") {
		return failed(&errorOf{422, metav1.StatusReasonInvalid, ""}) // like a server without streamed lists
	}
	if s.isAway(r.Resource) {
		return failed(errAway)
	}
	since, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	if s.store.isCompacted(since) {
		return failed(&errorOf{410, metav1.StatusReasonExpired, ""})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := &watchStream{server: s, request: r, run: s.run, matches: matcherOf(r.URL.Query()), next: since + 1}
	if r.URL.Query().Get("allowWatchBookmarks") == "true" {
		stream.bookmark = time.Now().Add(s.lag.Bookmark())
	}
	response := answered(http.StatusOK, nil)
	response.ContentLength = -1
	response.Body = stream
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
	cache := s.caches[w.request.Resource]
	seen, news, hasEnded := cache.seen, cache.news, s.isDown || s.run != w.run || cache.isAway
	s.mu.Unlock()
	switch {
	case hasEnded:
		return errWatchEnded
	case ctx.Err() != nil:
		return ctx.Err()
	case seen < w.next && !w.owesBookmark:
		w.pause(ctx, news)
		return nil
	}

	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for ; w.next <= seen; w.next++ {
		if r := s.store.revisions[w.next-1]; r.Resource == w.request.Resource {
			if event := w.eventFor(r); event != "" {
				w.unread = append(w.unread, eventOf(event, r.in(w.request.onlyMeta))...)
			}
		}
	}
	if w.owesBookmark {
		w.owesBookmark = false
		w.unread = append(w.unread, w.bookmarkAt(seen)...)
	}
	return nil
}

// eventFor returns what a revision is to a client who sees only the objects that match, or "" for nothing.
func (w *watchStream) eventFor(r *Revision) watch.EventType {
	isThere, wasThere := r.Event != watch.Deleted && w.matches(r), r.former != nil && w.matches(r.former)
	switch {
	case isThere && wasThere:
		return watch.Modified
	case isThere:
		return watch.Added
	case wasThere:
		return watch.Deleted
	default:
		return ""
	}
}

// pause waits for news, or until it is time for a bookmark.
func (w *watchStream) pause(ctx context.Context, news <-chan struct{}) {
	var due <-chan time.Time
	if !w.bookmark.IsZero() {
		timer := time.NewTimer(time.Until(w.bookmark))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-news:
	case <-ctx.Done():
	case <-due:
		w.bookmark, w.owesBookmark = time.Now().Add(w.server.lag.Bookmark()), true
		w.server.progress(w.request.Resource)
	}
}

// bookmarkAt returns the event that nothing else has happened up to a version.
func (w *watchStream) bookmarkAt(version int64) []byte {
	kind := kinds[w.request.Resource]
	if w.request.onlyMeta {
		kind = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	}
	return eventOf(watch.Bookmark, encode(map[string]any{
		"apiVersion": kind.APIVersion, "kind": kind.Kind, "metadata": map[string]any{"resourceVersion": strconv.FormatInt(version, 10)},
	}))
}

func eventOf(event watch.EventType, object []byte) []byte {
	raw, err := json.Marshal(metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Raw: object}})
	if err != nil {
		panic(err)
	}
	return raw
}

// Close implements [io.Closer]. The context of the request ends the watch.
func (w *watchStream) Close() error { return nil }
