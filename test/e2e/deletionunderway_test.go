package e2e

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
)

// TestCreateWaitsForADeletionUnderWay creates at the limit while a finalizer still holds an object under deletion. The
// create waits for the end of that object, as it does for a plain deletion.
func TestCreateWaitsForADeletionUnderWay(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	held := w.configMap("0")
	held.Finalizers = []string{"example.com/hold"}
	w.mustCreate(held)
	for n := range 5 {
		w.mustDelete(held)
		next := w.configMap(fmt.Sprint(n + 1))
		next.Finalizers = held.Finalizers
		var creates errgroup.Group
		creates.Go(func() error { return admin.Create(w.ctx, next) })

		w.liftFinalizers(held)

		if err := creates.Wait(); err != nil {
			t.Fatalf("create %d: %v", n+1, err)
		}
		held = next
	}
	w.mustDelete(held)
	w.liftFinalizers(held)
	w.wantBucket(1, 0, 1, 0)
}
