package apiclient

import (
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// clockInterval is how often the clock of the API server is compared with this machine's.
	clockInterval = 10 * time.Second
	// clockPrecision is how long a request may take from whose answer the clock is read, and the least difference that counts:
	// answers tell the time in whole seconds.
	clockPrecision = time.Second
)

// Clock tells the time by the clock of the API server, which also says when objects were created. Where several API servers
// answer, it is that of the latest. The zero value goes by this machine's clock until an answer was observed.
type Clock struct {
	ahead    atomic.Int64 // of this machine's clock, in nanoseconds
	observed atomic.Pointer[time.Time]
}

// Now returns the time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// observe reads the clock from the answer to a request that was sent at that time.
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
