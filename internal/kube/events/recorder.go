// Package events takes what should be said in events, and sees to it that it arrives. The recorders of
// client-go send in the background and drop what the API server refuses, which nobody notices.
//
// They also take events for one that agree in all but the note: of the second and those after it
// only the number is kept. So an event on one object that is about others names each of them as
// related, or says nothing of them that is not in the first.
package events

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

const (
	// noteBytesMax is the length of the longest note that the API server takes.
	noteBytesMax = 1024
	ellipsis     = "..."
)

// Recorder records events with notes of any length: what is too long is cut.
type Recorder struct {
	recorder events.EventRecorder
	// scheme, if set, finds the kinds of objects for [Recorder.WithNamespaces].
	scheme          *runtime.Scheme
	systemNamespace string
}

// NewRecorder returns a recorder that hands events on to another.
func NewRecorder(to events.EventRecorder) *Recorder { return &Recorder{recorder: to} }

// Eventf records an event on an object, as [events.EventRecorder] does. related is the object that
// it is about besides, or nil.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.recorder.Eventf(r.withNamespace(regarding, related), related, eventtype, reason, action, "%s", cut(fmt.Sprintf(note, args...)))
}

// cut shortens a note to what the API server takes.
func cut(note string) string {
	if len(note) <= noteBytesMax {
		return note
	}
	return strings.ToValidUTF8(note[:noteBytesMax-len(ellipsis)], "") + ellipsis
}
