package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// renewInterval is the time between two events of a stream, and so between two renewals of a busy page.
	renewInterval = 5 * time.Second
	// keepAlive is the time between two lines of a quiet stream. A line also finds a browser that is gone.
	keepAlive = 20 * time.Second
	// writeTimeout bounds the time of a stream without a line. It is longer than keepAlive: HTTP/2 ends a stream at its
	// deadline, even without a write in progress.
	writeTimeout = 3 * keepAlive
	// checkInterval is the time between two checks of the credentials of an open stream.
	checkInterval = time.Minute
	// streamLifetime bounds a stream. The browser opens another.
	streamLifetime = time.Hour
	// streamsMax bounds the streams of a console, watchesMax the watches of a stream.
	streamsMax, watchesMax = 1000, 8
)

// Watch names objects whose changes renew a page.
type Watch struct {
	// Resource is a resource of the quota API, such as effectiveresourcegrants.
	Resource string
	// Namespace restricts them to a namespace. Empty: all.
	Namespace string
}

// begun is a watch from a version on: that of the list on the page. Without a version, it begins when the stream does.
type begun struct {
	Watch
	version string
}

// watchable are the resources that a stream can watch.
var watchable = map[string]schema.GroupVersion{
	"effectiveresourcegrants":  quotav1alpha1.GroupVersion,
	"quotarequests":            quotav1alpha1.GroupVersion,
	"claimcreationpolicies":    quotav1alpha1.GroupVersion,
	"resourcequotaallocations": quotav1alpha1.GroupVersion,
	"quotaincreases":           openmcpv1alpha1.GroupVersion,
}

// liveURL returns the URL of the stream of watches, or an empty text without watches. The stream begins where the lists
// on the page ended, so it misses nothing.
func (r *Request) liveURL(watches []Watch) string {
	if len(watches) == 0 {
		return ""
	}
	query := url.Values{}
	for _, w := range watches {
		query.Add("watch", w.Namespace+"/"+w.Resource+"/"+r.api.versionOf(w))
	}
	return Base + "/live?" + query.Encode()
}

// watchesOf returns the watches in a stream's URL.
func watchesOf(r *http.Request) ([]begun, error) {
	var watches []begun
	for _, text := range r.URL.Query()["watch"] {
		namespace, rest, _ := strings.Cut(text, "/")
		resource, version, _ := strings.Cut(rest, "/")
		if watchable[resource].Empty() {
			return nil, fmt.Errorf("%q cannot be watched", resource)
		}
		watches = append(watches, begun{Watch{Resource: resource, Namespace: namespace}, version})
	}
	if len(watches) == 0 || len(watches) > watchesMax {
		return nil, fmt.Errorf("a stream has 1 to %d watches", watchesMax)
	}
	return watches, nil
}

// serveLive sends an event whenever a watched object changes, at most one in an interval. The watch has the person's
// rights, so objects they may not see do not reach them.
func (c *Console) serveLive(w http.ResponseWriter, r *Request) {
	watches, err := watchesOf(r.Request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	leave, err := r.Session.EnterStream()
	if err == nil {
		defer leave()
		select {
		case c.streams <- struct{}{}:
			defer func() { <-c.streams }()
		default:
			err = errors.New("the console has too many open streams")
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), streamLifetime)
	defer cancel()
	defer context.AfterFunc(r.Session.Context(), cancel)()
	api, err := metadata.NewForConfig(r.Session.Config)
	if err != nil {
		http.Error(w, "The console cannot watch.", http.StatusInternalServerError)
		return
	}
	changed := make(chan struct{}, 1)
	for _, watched := range watches {
		go follow(ctx, api, watched, changed)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &stream{out: w, flusher: http.NewResponseController(w)}
	s.run(ctx, r, changed)
}

// stream is one open stream of events.
type stream struct {
	out     http.ResponseWriter
	flusher *http.ResponseController
}

// send writes a line and flushes it. It reports whether the browser still reads.
func (s *stream) send(text string) bool {
	_ = s.flusher.SetWriteDeadline(time.Now().Add(writeTimeout)) // without deadlines, the end of the connection suffices
	if _, err := s.out.Write([]byte(text)); err != nil {
		return false
	}
	return s.flusher.Flush() == nil
}

// run sends events until the context, the session or the connection ends.
func (s *stream) run(ctx context.Context, r *Request, changed <-chan struct{}) {
	alive, check := time.NewTicker(keepAlive), time.NewTicker(checkInterval)
	defer alive.Stop()
	defer check.Stop()
	if !s.send("retry: 5000\n: open\n\n") {
		return
	}
	var next <-chan time.Time // fires when another event may follow
	ready := changed
	for {
		isOpen := true
		select {
		case <-ctx.Done():
			return
		case <-ready:
			isOpen = s.send("event: changed\ndata:\n\n")
			ready, next = nil, time.After(renewInterval)
		case <-next:
			ready, next = changed, nil
		case <-alive.C:
			isOpen = s.send(": alive\n\n")
		case <-check.C:
			isOpen = r.Session.Check(ctx) == nil
		}
		if !isOpen {
			return
		}
	}
}

// follow signals the changes of the watched objects until ctx ends. A watch signals at its start unless it continues
// where the page or the watch before it ended: it may have missed changes.
func follow(ctx context.Context, api metadata.Interface, w begun, changed chan<- struct{}) {
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // a signal waits already
		}
	}
	objects := api.Resource(watchable[w.Resource].WithResource(w.Resource)).Namespace(w.Namespace)
	if w.version != "" {
		watchFrom(ctx, objects, w.version, signal)
	}
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, time.Minute) {
		began := time.Now()
		// Without an answer, the person may not see them, or the API server is away.
		if list, err := objects.List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			signal()
			watchFrom(ctx, objects, list.ResourceVersion, signal)
		}
		if time.Since(began) > time.Minute {
			pause = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// watchFrom signals changes after a version until the watch ends.
func watchFrom(ctx context.Context, objects metadata.ResourceInterface, version string, signal func()) {
	watcher, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if slices.Contains([]watch.EventType{watch.Added, watch.Modified, watch.Deleted}, event.Type) {
			signal()
		}
	}
}
