package apiclient

import (
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// clockInterval is the time between two comparisons with the clock of the API server.
	clockInterval = 10 * time.Second
	// clockPrecision bounds the duration of a request for another reading of the clock. Smaller differences do not
	// count: answers have the time in whole seconds.
	clockPrecision = time.Second
)

// Clock is the clock of the API server, the source of the creation timestamps of objects. With several API servers, it
// is the clock of the latest answer. The zero value is this machine's clock until the first observed answer. From then
// on the clock goes on by the machine's monotonic time and does not jump with the clock of the machine.
type Clock struct {
	reading atomic.Pointer[reading]
}

// reading is the time on the clock at a moment.
type reading struct {
	at    time.Time // with the monotonic time
	shown time.Time
	// took is how long the request took. The reading may be wrong by half of it.
	took time.Duration
}

func (r *reading) project(at time.Time) time.Time { return r.shown.Add(at.Sub(r.at)) }

// Now returns the time.
func (c *Clock) Now() time.Time {
	now := time.Now()
	if r := c.reading.Load(); r != nil {
		return r.project(now)
	}
	return now
}

// observe reads the clock from the answer to a request sent at the given time. A reading equal to the clock, within the
// precision of answers, does not change it.
func (c *Clock) observe(sent time.Time, answer *http.Response) {
	received := time.Now()
	took, last := received.Sub(sent), c.reading.Load()
	if !isDue(last, received, took) {
		return
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return
	}
	shown := date.Add(time.Second/2 + took/2)
	candidates := []time.Time{received.Round(0)}
	if last != nil {
		candidates = []time.Time{last.project(received), received.Round(0)}
	}
	for _, candidate := range candidates {
		if shown.Sub(candidate).Abs() <= clockPrecision+took/2 {
			shown = candidate
			break
		}
	}
	c.reading.Store(&reading{at: received, shown: shown, took: took})
}

// isDue reports whether an answer is worth a reading. The first one is, however long it took, because this machine's
// clock may be wrong by any amount. A more precise one is, too, and so is one after somebody suspended the machine or
// set its clock.
func isDue(last *reading, received time.Time, took time.Duration) bool {
	if last == nil || last.took > clockPrecision && took < last.took {
		return true
	}
	elapsed := received.Sub(last.at)
	if jump := received.Round(0).Sub(last.at.Round(0)) - elapsed; jump.Abs() > clockPrecision {
		return true
	}
	return took <= clockPrecision && elapsed >= clockInterval
}
