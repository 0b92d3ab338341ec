// Package await waits in tests for conditions.
package await

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pace is the time between two looks. It is short at first, to see quick results at once. It is longer later, so many
// waiting tests do not keep a busy server from its work.
var pace = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.2, Cap: 250 * time.Millisecond, Steps: 1 << 30}

// endTimeout is how long something may take to end after it was stopped.
const endTimeout = 2 * time.Minute

// End returns the result of wait, which waits for the end of something that was stopped. If this takes longer than two
// minutes, End returns an error, and the other tests can go on.
func End(wait func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(endTimeout):
		return fmt.Errorf("it still runs %s after it was stopped", endTimeout)
	}
}

// Receive returns the next value of a channel. It fails the test if this takes longer than within, or if the channel is
// closed.
func Receive[T any](t testing.TB, within time.Duration, from <-chan T) T {
	t.Helper()
	var value T
	var isOpen bool
	select {
	case value, isOpen = <-from:
	case <-time.After(within):
		t.Fatalf("no %s came within %s", reflect.TypeFor[T](), within)
	}
	if !isOpen {
		t.Fatalf("the channel of %s is closed", reflect.TypeFor[T]())
	}
	return value
}

// NoError calls check until it returns nil. It fails the test with the last error if this takes longer than within.
func NoError(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	var last error
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := pace.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v", within, last)
	}
}
