package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// latestInterval is the least time between two writes of the event on one subject.
	latestInterval = 10 * time.Second
	// latestTick is the time between two checks for due writes, and latestPerTick the largest number of writes after
	// one.
	latestTick    = time.Second
	latestPerTick = 10
	// latestFor is how long a further occurrence counts for the same event. By default the API server keeps events for
	// an hour.
	latestFor = 50 * time.Minute
	// latestMax bounds the number of subjects. Events on further ones are dropped.
	latestMax = 4096
	// uidWait is how long a new event waits for its object, because the object may come a moment later.
	uidWait = 15 * time.Second
	// latestTimeout bounds one write.
	latestTimeout = 3 * time.Second
)

// Latest records frequent occurrences: one event for each subject and reason, with the number of occurrences and the
// latest note. A storm costs one write in ten seconds. [Recorder] keeps the first note instead, and is for occurrences
// that matter one by one.
type Latest struct {
	// Events writes events of the core group: only there may the note of an event change.
	Events corev1client.EventsGetter
	// Live finds the UIDs of the objects of events.
	Live client.Reader
	Log  logr.Logger

	mu       sync.Mutex
	subjects map[subject]*occurrences
}

// subject is the object and the reason of an event.
type subject struct{ namespace, kind, name, reason string }

// occurrences are those of one subject.
type occurrences struct {
	event   corev1.Event
	isNews  bool
	written time.Time // or zero
}

// Record records an event of type Warning on a namespaced object, existing or not. It returns at once; [Latest.Run]
// finds the object's UID and writes the event.
func (l *Latest) Record(regarding *corev1.ObjectReference, reason, note string) {
	now := metav1.Now()
	key := subject{regarding.Namespace, regarding.Kind, regarding.Name, reason}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.subjects[key]
	if known == nil {
		if len(l.subjects) >= latestMax {
			return
		}
		if l.subjects == nil {
			l.subjects = map[subject]*occurrences{}
		}
		known = &occurrences{event: newEvent(key, regarding, now)}
		l.subjects[key] = known
	}
	known.event.Message, known.event.LastTimestamp, known.isNews = cut(note), now, true
	known.event.Count++
}

// newEvent returns the event on a subject before its first occurrence.
func newEvent(of subject, regarding *corev1.ObjectReference, now metav1.Time) corev1.Event {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := fnv.New64a()
	_, _ = fmt.Fprintf(name, "%q %s %d", of, host, now.UnixNano())
	return corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: of.namespace, Name: fmt.Sprintf("%s.%x", of.name, name.Sum64())},
		InvolvedObject: *regarding, Type: corev1.EventTypeWarning, Reason: of.reason, FirstTimestamp: now,
		Source: corev1.EventSource{Component: component}, ReportingController: component, ReportingInstance: host,
	}
}

// component is the source of events.
const component = "bursar"

// Run writes the records until ctx ends.
func (l *Latest) Run(ctx context.Context) error {
	ticker := time.NewTicker(latestTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for key, event := range l.due() {
			err := l.write(ctx, event)
			if errors.Is(err, errNoObject) {
				l.postpone(key)
			} else if err != nil {
				l.Log.V(1).Info("an event was not written", "namespace", key.namespace, "regarding", key.name, "err", err.Error())
			}
		}
	}
}

// postpone makes an event due again with the next tick.
func (l *Latest) postpone(key subject) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.subjects[key]; o != nil {
		o.isNews, o.written = true, time.Time{}
	}
}

// errNoObject means that the object of a new event does not exist yet.
var errNoObject = errors.New("the object of the event does not exist")

// dueEvent is an event to write now.
type dueEvent struct {
	corev1.Event
	isNew bool
}

// due takes the events to write now, and forgets subjects without recent occurrences.
func (l *Latest) due() map[subject]dueEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := map[subject]dueEvent{}
	for key, o := range l.subjects {
		age := time.Since(o.written) // very long for a new event
		switch {
		case o.isNews && age >= latestInterval && len(due) < latestPerTick:
			due[key] = dueEvent{o.event, o.written.IsZero()}
			o.isNews, o.written = false, time.Now()
		case !o.isNews && age > latestFor:
			delete(l.subjects, key)
		}
	}
	return due
}

// write updates an event, or creates it.
func (l *Latest) write(ctx context.Context, event dueEvent) error {
	ctx, cancel := context.WithTimeout(ctx, latestTimeout)
	defer cancel()
	events := l.Events.Events(event.Namespace)
	if !event.isNew {
		patch, err := json.Marshal(map[string]any{"message": event.Message, "count": event.Count, "lastTimestamp": event.LastTimestamp})
		if err != nil {
			return err
		}
		if _, err = events.Patch(ctx, event.Name, types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
	}
	var err error
	event.InvolvedObject.UID, err = l.uid(ctx, &event.InvolvedObject)
	switch {
	case err != nil:
		return err
	case event.InvolvedObject.UID == "" && time.Since(event.FirstTimestamp.Time) < uidWait:
		return errNoObject
	}
	_, err = events.Create(ctx, &event.Event, metav1.CreateOptions{})
	return err
}

// uid returns the UID of an object, or "" if it does not exist. kubectl describe finds events by it. Once for each
// event a request is cheaper than a watch of all such objects. It lists, because Bursar may list its views and not get
// them.
func (l *Latest) uid(ctx context.Context, of *corev1.ObjectReference) (types.UID, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(of.GroupVersionKind().GroupVersion().WithKind(of.Kind + "List"))
	if err := l.Live.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingFields{"metadata.name": of.Name}); err != nil {
		return "", fmt.Errorf("find %s %s: %w", of.Kind, of.Name, err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	return list.Items[0].UID, nil
}
