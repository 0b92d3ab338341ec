package watcher

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

// TestAwaitVersion has a busy watch take longer than the quiet time until it has a version, and another end before it.
func TestAwaitVersion(t *testing.T) {
	t.Parallel()
	const quiet, wanted = 20 * time.Millisecond, 10
	for last, want := range map[ledger.Version]bool{wanted: true, wanted - 1: false} {
		synctest.Test(t, func(t *testing.T) {
			k := &kindWatch{target: inventory.NewKind("v1/ConfigMap", func(types.NamespacedName) string { return "" }), freshness: newFreshness()}
			k.target.Replace(ledger.Basis{Objects: 1}, func(func(inventory.Object) bool) {})
			go func() {
				for version := ledger.Version(2); version <= last; version++ {
					time.Sleep(quiet * 3 / 4)
					k.target.Advance(version)
					k.freshness.moved()
				}
			}()

			if got := k.awaitVersion(t.Context(), wanted, quiet); got != want {
				t.Errorf("with events up to version %d, version %d is there: %t", last, wanted, got)
			}
		})
	}
}

// TestIsIdle checks that an event is being handled until the last of those who handle it have ended.
func TestIsIdle(t *testing.T) {
	t.Parallel()
	f := newFreshness()
	f.setOpen(true)
	endBoth := f.begin()
	f.begin()()
	if f.isIdle() {
		t.Error("the watch is idle while the cache of claims handles an event")
	}
	endBoth()
	if !f.isIdle() {
		t.Error("the watch is not idle after the event")
	}
}
