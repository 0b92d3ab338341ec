// Package await waits in tests for what happens by itself.
package await

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// interval is the time between two looks.
const interval = 20 * time.Millisecond

// NoError calls check until it returns nil, and fails the test with its last error if that takes longer than
// within.
func NoError(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), interval, within, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v", within, last)
	}
}
