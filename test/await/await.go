// Package await waits in tests for conditions.
package await

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pace is the time between two looks. It is short at first, to see quick results at once. It is longer later, so many
// waiting tests do not keep a busy server from its work.
var pace = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.2, Cap: 250 * time.Millisecond, Steps: 1 << 30}

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
