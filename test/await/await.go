// Package await waits in tests for what happens by itself.
package await

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pace is the time between two looks: short at first, so that what happens at once is seen at once, and longer later,
// so that many tests which wait do not keep a busy server from what they wait for.
var pace = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.2, Cap: 250 * time.Millisecond, Steps: 1 << 30}

// NoError calls check until it returns nil, and fails the test with its last error if that takes longer than
// within.
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
