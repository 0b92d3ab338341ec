package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"time"
)

// EndAfterTimeout calls end if timeout has passed since ctx ended and nobody has called the function that it returns: an etcd or
// an API server that waits for what never comes must not keep a process from ending. The sentence says so, and that file
// holds what every goroutine waits for.
func EndAfterTimeout(ctx context.Context, timeout time.Duration, file string, end func(sentence string)) (ended func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
			return
		case <-time.After(timeout):
		}
		var goroutines bytes.Buffer
		const withStacks = 2
		err := pprof.Lookup("goroutine").WriteTo(&goroutines, withStacks)
		if err == nil {
			err = os.WriteFile(file, goroutines.Bytes(), 0o600)
		}
		where := "please report it with " + file + ", which says what it waits for"
		if err != nil {
			where = "what it waits for cannot be told: " + err.Error()
		}
		end(fmt.Sprintf("the server has not stopped within %s, and ends as in a power cut, which loses nothing; %s", timeout, where))
	})
	return func() { stop(); close(done) }
}
