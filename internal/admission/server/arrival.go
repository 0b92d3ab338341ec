package server

import (
	"io"
	"net/http"
	"time"
)

// arrivalTime bounds how long the body of a request takes to arrive.
const arrivalTime = 3 * time.Second

// arriveSoon returns a handler that reads no body for longer than arrivalTime.
func arriveSoon(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if c.SetReadDeadline(time.Now().Add(arrivalTime)) == nil { // a request in memory has arrived
			r.Body = &arriving{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// arriving is a body with a deadline. At its end, the deadline ends as well: the server goes on reading, because it
// notices the end of a connection that way.
type arriving struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF {
		_ = a.connection.SetReadDeadline(time.Time{}) // it was possible before
	}
	return n, err
}
