package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressDelay is how long a command may take before it says what it does, and progressInterval how often the line
// changes.
const (
	progressDelay    = time.Second
	progressInterval = time.Second
)

// StartProgress says what takes long, in a line on a terminal, until the returned function is called. That may be called
// again. It says nothing elsewhere, and nothing on a terminal that cannot remove the line.
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
