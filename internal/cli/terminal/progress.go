package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressDelay is the time before a command reports its work in progress, and progressInterval the time between two
// changes of the line.
const (
	progressDelay    = time.Second
	progressInterval = time.Second
)

// StartProgress reports a long task in a line on a terminal, until a call of the returned function. Further calls of
// this function do nothing. Elsewhere, and on a terminal that cannot remove the line, it prints nothing.
func StartProgress(out io.Writer, what string) (stop func()) {
	if s := Of(out); !s.IsTerminal() || !s.HasBars {
		return func() {}
	}
	return startProgress(out, what, progressDelay)
}

func startProgress(out io.Writer, what string, delay time.Duration) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		began := time.Now()
		timer := time.NewTimer(delay)
		defer timer.Stop()
		for isShown := false; ; {
			select {
			case <-done:
				if isShown {
					_, _ = fmt.Fprint(out, "\r\x1b[K") // the answer matters more
				}
				return
			case now := <-timer.C:
				isShown = true
				_, _ = fmt.Fprintf(out, "\r\x1b[K%s ... %d s", what, int(now.Sub(began).Seconds()))
				timer.Reset(progressInterval)
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}
