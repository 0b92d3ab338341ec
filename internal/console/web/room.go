package web

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// room holds forms from their first byte to the end of their answer, so it bounds the memory of all of them.
//
// A form that is still on its way holds no place against others: if the room is full, the form longest on its way makes
// place for the next one. So nobody fills a room with forms that never end.
type room struct {
	// formsMax bounds the forms, and formsOfOne those of one person.
	formsMax, formsOfOne int
	// bytesMax bounds a form, and timeout the time in which it has to arrive.
	bytesMax int64
	timeout  time.Duration

	mu    sync.Mutex
	forms int
	// byOwner are the numbers of forms by owner.
	byOwner map[string]int
	// arriving are the forms on their way, the one longest on its way first.
	arriving list.List
}

// form is a form in a room.
type form struct {
	room  *room
	owner string
	// connection is where the form comes from.
	connection *http.ResponseController
	// place is the form's place among those on their way. It is nil once the form is read.
	place *list.Element
	// isUncounted means that the form no longer counts.
	isUncounted bool
}

var (
	errFull      = &StatusError{http.StatusServiceUnavailable, "The console is busy with other forms. Nothing was changed: try again."}
	errFormsMany = &StatusError{http.StatusTooManyRequests, "You have too many open forms. Nothing was changed: wait for their answers, and try again."}
	errFormSlow  = &StatusError{http.StatusRequestTimeout, "The form took too long to arrive. Nothing was changed: try again."}
	errFormCut   = &StatusError{http.StatusBadRequest, "The form did not arrive as a whole. Nothing was changed: try again."}
)

// receive reads the body of a request whole, and replaces it by what it read. The caller leaves after the answer. Forms
// without an owner are those of strangers, of whom nobody knows which belong to one.
func (r *room) receive(w http.ResponseWriter, request *http.Request, owner string) (leave func(), refusal *StatusError) {
	// Also before a refusal, the server reads the rest of the body. Without deadlines, the next form ends the wait in a
	// full room.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(r.timeout))
	if request.ContentLength > r.bytesMax {
		return nil, r.tooLarge()
	}
	f, refusal := r.enter(connection, owner)
	if refusal != nil {
		return nil, refusal
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, r.bytesMax))
	wasEvicted := f.arrive()
	if err == nil && !wasEvicted {
		_ = connection.SetReadDeadline(time.Time{}) // a deadline during the answer would end it
		request.Body = io.NopCloser(bytes.NewReader(body))
		return f.leave, nil
	}

	f.leave()
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooLarge):
		return nil, r.tooLarge()
	case wasEvicted:
		return nil, errFull
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errFormSlow
	default:
		return nil, errFormCut
	}
}

func (r *room) tooLarge() *StatusError {
	const text = "The form is larger than %d KiB. Nothing was changed: send less at a time."
	return &StatusError{http.StatusRequestEntityTooLarge, fmt.Sprintf(text, r.bytesMax>>10)}
}

// enter adds a form that is about to arrive.
func (r *room) enter(connection *http.ResponseController, owner string) (*form, *StatusError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owner != "" && r.byOwner[owner] >= r.formsOfOne {
		return nil, errFormsMany
	}
	if r.forms >= r.formsMax {
		longest := r.arriving.Front()
		if longest == nil {
			return nil, errFull
		}
		longest.Value.(*form).evictLocked()
	}

	f := &form{room: r, owner: owner, connection: connection}
	f.place = r.arriving.PushBack(f)
	r.forms++
	if r.byOwner == nil {
		r.byOwner = map[string]int{}
	}
	r.byOwner[owner]++
	return f, nil
}

// evictLocked ends the arrival of a form. The caller holds the room's lock, so the request has not ended.
func (f *form) evictLocked() {
	f.uncountLocked()
	f.room.arriving.Remove(f.place)
	f.place = nil
	_ = f.connection.SetReadDeadline(time.Unix(1, 0)) // the read of its body fails
}

// uncountLocked takes a form out of the counts, once. The caller holds the room's lock.
func (f *form) uncountLocked() {
	if f.isUncounted {
		return
	}
	f.isUncounted = true
	f.room.forms--
	if f.room.byOwner[f.owner]--; f.room.byOwner[f.owner] == 0 {
		delete(f.room.byOwner, f.owner)
	}
}

// arrive ends the time in which a form makes place for others, and reports whether it did.
func (f *form) arrive() (wasEvicted bool) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	if f.place == nil {
		return true
	}
	f.room.arriving.Remove(f.place)
	f.place = nil
	return false
}

// leave takes a form out of its room.
func (f *form) leave() {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	f.uncountLocked()
}
