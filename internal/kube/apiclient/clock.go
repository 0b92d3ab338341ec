package apiclient

import (
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// clockInterval is the time between two comparisons with the clock of the API server.
	clockInterval = 10 * time.Second
	// clockPrecision is the longest duration of a request that the clock is read from, and the least difference that
	// counts: answers have the time in whole seconds.
	clockPrecision = time.Second
)

// Clock is the clock of the API server, which sets the creation timestamps of objects. With several API servers, it is
// the clock of the latest answer. The zero value is this machine's clock until the first observed answer.
type Clock struct {
	ahead    atomic.Int64 // of this machine's clock, in nanoseconds
	observed atomic.Pointer[time.Time]
}

// Now returns the time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// observe reads the clock from the answer to a request sent at that time.
func (c *Clock) observe(sent time.Time, answer *http.Response) {
	received := time.Now()
	if last := c.observed.Load(); received.Sub(sent) > clockPrecision || last != nil && received.Sub(*last) < clockInterval {
		return
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return
	}
	c.observed.Store(&received)
	middle := sent.Add(received.Sub(sent) / 2)
	ahead := date.Add(time.Second / 2).Sub(middle)
	if ahead.Abs() <= clockPrecision {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}
