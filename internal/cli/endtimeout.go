package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"time"
)

// EndAfterTimeout calls end if the timeout passes after the end of ctx without a call of the returned function. A
// hanging etcd or API server must not keep a process from ending. The sentence reports it. The file receives the stacks
// of all goroutines.
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
		where := "please report it with " + file + ", which lists its goroutines"
		if err != nil {
			where = "its goroutines could not be listed: " + err.Error()
		}
		end(fmt.Sprintf("the server has not stopped within %s, and ends as in a power cut, and loses nothing; %s", timeout, where))
	})
	return func() { stop(); close(done) }
}
