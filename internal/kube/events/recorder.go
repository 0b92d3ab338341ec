// Package events records events in a form acceptable to the API server. client-go's recorders send in the background
// and silently drop rejected events.
//
// They also count events with the same content except for the note as one, and keep only its first note. So an event on
// one object about others names each of them as related, or its note leaves them out.
//
// Like all of kube it knows no quota, and any internal package may import it.
package events

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

const (
	// noteBytesMax is the API server's bound on the length of a note.
	noteBytesMax = 1024
	ellipsis     = "..."
)

// Recorder records events with notes of any length: it cuts long ones.
type Recorder struct {
	recorder events.EventRecorder
	// scheme, if set, resolves the kinds of objects for [Recorder.WithNamespaces].
	scheme          *runtime.Scheme
	systemNamespace string
}

// NewRecorder returns a recorder in front of another.
func NewRecorder(to events.EventRecorder) *Recorder { return &Recorder{recorder: to} }

// Eventf records an event on an object, as [events.EventRecorder] does. related is a second object, or nil.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	placed, clusterScoped := r.place(regarding, related)
	r.recorder.Eventf(placed, related, eventtype, reason, action, "%s", cut(fmt.Sprintf(note, args...)))
	if clusterScoped != nil {
		r.recorder.Eventf(clusterScoped, nil, eventtype, reason, action, elsewhere, strings.ToLower(clusterScoped.Kind), clusterScoped.Name)
	}
}

// cut shortens a note to noteBytesMax.
func cut(note string) string {
	if len(note) <= noteBytesMax {
		return note
	}
	return strings.ToValidUTF8(note[:noteBytesMax-len(ellipsis)], "") + ellipsis
}
