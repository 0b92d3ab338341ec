package e2e

import (
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/inventory"
)

// A watch ends. Its successor shows what has happened meanwhile, without a list.
func TestWatcherGoesOnAfterAWatch(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	gone := w.sized("a", "gone", 3)
	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "")
	w.create(gone, w.sized("a", "stays", 4)) // after a watch without an event, the client would list again
	w.wantDemand("acme", "7 by 2")
	before, lists := w.snapshot("acme"), len(w.wire.sent(isListOf("configmaps")))

	watches := w.wire.holdWatches("configmaps")
	defer watches.end()
	w.wire.cut("configmaps")
	w.waitFor(watches.reached)
	w.delete(gone)
	w.create(w.sized("a", "new", 5))
	w.update(w.sized("a", "stays", 6))
	watches.end()
	w.wantDemand("acme", "11 by 2")
	if !w.visibility(gone.UID).IsDeleted {
		t.Error("nobody sees that the object was deleted")
	}
	w.wantTraceable(before)
	if now := len(w.wire.sent(isListOf("configmaps"))); now != lists {
		t.Errorf("there were %d lists, and now %d", lists, now)
	}
}

// The API server no longer has all changes since the watch ended. The list shows what they led to.
func TestWatcherListsAgainAfterACompaction(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	gone := w.sized("a", "gone", 3)
	w.create(gone, w.sized("a", "stays", 4))
	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "7 by 2")
	before := w.snapshot("acme")

	lists := len(w.wire.sent(isListOf("configmaps")))
	w.wire.refuse(1, http.StatusGone, metav1.StatusReasonExpired, isWatchOf("configmaps"))
	watches := w.wire.holdWatches("configmaps")
	defer watches.end()
	w.wire.cut("configmaps")
	w.waitFor(watches.reached)
	w.delete(gone)
	never := w.sized("a", "never", 7)
	w.create(never)
	w.delete(never)
	w.create(w.sized("a", "new", 5))
	watches.end()
	w.wantDemand("acme", "9 by 2")
	if now := len(w.wire.sent(isListOf("configmaps"))); now == lists {
		t.Error("there is no other list")
	}
	if v := w.visibility(gone.UID); !v.IsDeleted {
		t.Errorf("the object that is gone is %+v", v)
	}
	if v := w.visibility(never.UID); v.IsDeleted || v.Version > 0 {
		t.Errorf("the object that nobody saw is %+v", v)
	}
	w.wantTraceable(before)
}

// While a new policy lists, objects change, and the former demand follows them. That list is older than what is known,
// and there is another one.
func TestWatcherRefusesAnOlderList(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	w.create(w.sized("a", "one", 3))
	policy := w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "3 by 1")

	list := w.wire.holdEvents("configmaps", metav1.InitialEventsAnnotationKey)
	defer list.end()
	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "10 * " + bySize
	w.declare(policy)
	w.waitFor(list.reached)
	w.update(w.sized("a", "one", 1))
	w.create(w.sized("a", "two", 4))
	w.wantDemand("acme", "5 by 2")
	lists := len(w.wire.sent(isListOf("configmaps")))
	version := w.snapshot("acme").Basis.Objects
	again := w.wire.holdLists("configmaps", "v1/configmaps")
	defer again.end()
	list.end()
	w.waitFor(again.reached)
	if now := w.snapshot("acme"); now.Basis.Objects < version || describeDemands(now.Demands) != "5 by 2" {
		t.Errorf("after version %d, the older list leads to %+v", version, now)
	}
	again.end()
	w.wantDemand("acme", "50 by 2")
	if now := len(w.wire.sent(isListOf("configmaps"))); now <= lists {
		t.Error("there was no other list")
	}
}

// The watch of the former policy is about to count an object when the new policy takes over. Then it counts no more.
func TestWatcherEndsTheFormerWatch(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	definition, group := w.definition("v1") // of its own, so that the list stays the latest
	kind := group.WithVersion("v1")
	w.create(definition)
	w.Cleanup(func() { must(t, w.api.Delete(context.Background(), definition)) })
	size := func(object *unstructured.Unstructured, spec map[string]any) *unstructured.Unstructured {
		object.Object["spec"] = spec
		w.update(object)
		return object
	}
	object := size(w.machine(kind, "a", "one"), map[string]any{"size": "3"})
	policy := w.policyOf("sizes", kind, `"wait" in trigger.spec ? int(trigger.spec.wait) : int(trigger.spec.size)`)
	w.declare(policy)
	w.wantDemandOf(kind, "acme", "3 by 1")

	list := w.wire.holdEvents("machines", metav1.InitialEventsAnnotationKey)
	defer list.end()
	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = "10 * int(trigger.spec.size)"
	w.declare(policy)
	w.waitFor(list.reached)
	counting, goOn := make(chan struct{}), make(chan struct{})
	w.heard.setOnFailure(func(string) { close(counting); <-goOn })
	size(object, map[string]any{"size": "4", "wait": "for the test"})
	w.waitFor(counting)
	change := w.wire.holdEvents("machines", "for the test")
	defer change.end()
	list.end()
	w.waitFor(change.reached)
	w.wantDemandOf(kind, "acme", "30 by 1")
	close(goOn)
	w.newNamespace("b") // takes longer than the rest of the count
	w.wantDemandOf(kind, "acme", "30 by 1")
	change.end()
	w.wantDemandOf(kind, "acme", "40 by 1")
}

// Without a watch, nobody knows whether the inventory is recent.
func TestWatcherCannotCatchUpWithoutAWatch(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	object := w.sized("a", "one", 3)
	w.create(object)
	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "3 by 1")
	kinds := []string{inventory.NameOf(configMapKind)}

	watches := w.wire.holdWatches("configmaps")
	defer watches.end()
	w.wire.cut("configmaps")
	w.waitFor(watches.reached)
	w.delete(object)
	if err := w.watcher.CatchUp(t.Context(), kinds); err == nil && !w.visibility(object.UID).IsDeleted {
		t.Error("the inventory is said to be recent, and has a deleted object")
	}

	// Whoever calls when the watch is about to come back waits for it.
	caughtUp := make(chan error, 1)
	go func() { caughtUp <- w.watcher.CatchUp(t.Context(), kinds) }()
	watches.end()
	if err := <-caughtUp; err == nil && !w.visibility(object.UID).IsDeleted {
		t.Error("the inventory is said to be recent, and has a deleted object")
	}
	w.wantDemand("acme", "")
	must(t, w.watcher.CatchUp(t.Context(), kinds))
}

// A watch may begin with a list. Until the list is complete, the inventory is as old as before, although no event
// comes.
func TestWatcherCannotCatchUpDuringAList(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	object := w.sized("a", "one", 3)
	w.create(object)
	w.declare(w.policyOf("sizes", configMapKind, bySize))
	w.wantDemand("acme", "3 by 1")
	kinds := []string{inventory.NameOf(configMapKind)}

	w.wire.refuse(1, http.StatusGone, metav1.StatusReasonExpired, isWatchOf("configmaps"))
	watches := w.wire.holdWatches("configmaps")
	defer watches.end()
	list := w.wire.holdEvents("configmaps", metav1.InitialEventsAnnotationKey)
	defer list.end()
	w.wire.cut("configmaps")
	w.waitFor(watches.reached)
	w.delete(object)
	watches.end()
	w.waitFor(list.reached)
	if err := w.watcher.CatchUp(t.Context(), kinds); err == nil {
		t.Error("the inventory is said to be recent during a list, and has a deleted object")
	}

	list.end()
	w.wantDemand("acme", "")
	must(t, w.watcher.CatchUp(t.Context(), kinds))
	if !w.visibility(object.UID).IsDeleted {
		t.Error("nobody sees that the object was deleted")
	}
}
