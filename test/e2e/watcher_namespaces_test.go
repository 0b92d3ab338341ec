package e2e

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newOwned starts a watcher by whose policy the owners of namespaces pay for the sizes of ConfigMaps. The namespace a
// belongs to acme.
func newOwned(t *testing.T) *watched {
	t.Helper()
	w := newWatched(t)
	w.newNamespace("a", ownerLabel, "acme")
	w.declare(payingOwner(w.policyOf("sizes", configMapKind, bySize)))
	w.wantDemand("acme", "")
	return w
}

func TestWatcherFollowsLabelsOfNamespaces(t *testing.T) {
	t.Parallel()
	w := newOwned(t)
	w.newNamespace("b", ownerLabel, "blue")
	w.create(w.sized("a", "one", 3), w.sized("b", "two", 4))
	w.wantDemand("acme", "3 by 1")
	w.wantDemand("blue", "4 by 1")

	before := w.snapshot("acme")
	w.label("a", ownerLabel, "blue")
	w.wantDemand("acme", "")
	w.wantDemand("blue", "7 by 2")
	w.label("b", ownerLabel, "acme")
	w.wantDemand("acme", "4 by 1")
	w.wantDemand("blue", "3 by 1")
	w.wantTraceable(before)

	now := w.snapshot("acme")
	if now.Basis.Namespaces <= before.Basis.Namespaces {
		t.Errorf("the demand of %+v rests on no later namespaces than that of %+v", now.Basis, before.Basis)
	}
}

// Objects appear while their namespace changes hands. None may count for the former owner.
func TestWatcherCountsCreatesBesideARelabel(t *testing.T) {
	t.Parallel()
	const rounds, objects = 10, 8
	w := newOwned(t)
	for round := range rounds {
		owner := []string{"blue", "acme"}[round%2]
		var creating sync.WaitGroup
		for i := range objects {
			creating.Go(func() {
				if err := w.api.Create(w.ctx, w.sized("a", fmt.Sprintf("object-%d-%d", round, i), 1)); err != nil {
					t.Error(err)
				}
			})
			if i == objects/2 {
				w.label("a", ownerLabel, owner)
			}
		}
		creating.Wait()
		count := (round + 1) * objects
		w.wantDemand(owner, fmt.Sprintf("%d by %d", count, count))
		w.wantDemand([]string{"acme", "blue"}[round%2], "")
	}
}

// A new namespace of an earlier name is another one. The watch of the objects may be ahead of that of the namespaces.
func TestWatcherOfANamespaceThatReturns(t *testing.T) {
	t.Parallel()
	w := newOwned(t)
	w.create(w.sized("a", "one", 3))
	w.wantDemand("acme", "3 by 1")

	namespaces := w.wire.holdEvents("namespaces", "")
	defer namespaces.end()
	w.endNamespace("a")
	w.newNamespace("a", ownerLabel, "blue")
	again := w.sized("a", "two", 5)
	w.create(again)
	eventually(t, func() error {
		if w.visibility(again.UID).Version == 0 {
			return fmt.Errorf("the new object is not visible")
		}
		return nil
	})
	namespaces.end()
	w.wantDemand("acme", "")
	w.wantDemand("blue", "5 by 1")
}

// The objects of a namespace that the watch of namespaces does not show yet do not wait one after the other.
func TestWatcherAsksForANewNamespaceOnce(t *testing.T) {
	t.Parallel()
	const objects = 20
	w := newOwned(t)
	namespaces := w.wire.holdEvents("namespaces", "")
	defer namespaces.end()

	w.newNamespace("new", ownerLabel, "acme")
	for i := range objects {
		w.create(w.sized("new", fmt.Sprint("object-", i), 1))
	}
	w.wantDemand("acme", "20 by 20")

	asked := w.wire.sent(func(r *http.Request) bool { return path.Base(r.URL.Path) == w.namespace("new") })
	if len(asked) != 1 {
		t.Errorf("the watcher asked %d times for one namespace", len(asked))
	}
	namespaces.end()
	w.label("new", ownerLabel, "blue")
	w.wantDemand("blue", "20 by 20")
	w.wantDemand("acme", "")
}

// A request in a namespace waits for an observation that rests on the version of this namespace. It comes at once.
func TestWatcherConfirmsNewNamespacesSoon(t *testing.T) {
	t.Parallel()
	const rounds = 15 // with one in ten seconds, this takes longer than anybody waits
	w := newOwned(t)
	round, last := 0, w.newNamespace("n-0", ownerLabel, "acme")
	eventually(t, func() error {
		if w.snapshot("acme").Basis.Namespaces >= versionOfObject(t, last) {
			if round++; round == rounds {
				return nil
			}
			last = w.newNamespace(fmt.Sprint("n-", round), ownerLabel, "acme")
		}
		return fmt.Errorf("%d of %d namespaces are confirmed", round, rounds)
	})
}

// While objects are listed again, a namespace changes hands: some of the objects are counted already.
func TestWatcherCountsARelabelDuringAList(t *testing.T) {
	t.Parallel()
	w := newOwned(t)
	last := w.sized("a", "zz-last", 0)
	last.Data["size"] = "no number"
	w.create(w.sized("a", "one", 3), last)
	w.wantDemand("acme", "3 by 1")

	counted, once := make(chan struct{}), sync.Once{}
	w.wire.refuse(1, http.StatusGone, metav1.StatusReasonExpired, isWatchOf("configmaps"))
	list := w.wire.holdEvents("configmaps", metav1.InitialEventsAnnotationKey)
	defer list.end()
	w.heard.setOnFailure(func(line string) {
		if strings.Contains(line, last.Name) {
			once.Do(func() { close(counted) })
		}
	})
	w.wire.cut("configmaps")
	w.waitFor(list.reached)
	w.waitFor(counted)

	w.label("a", ownerLabel, "blue")
	// The watcher sees the label, and counts the namespace again now, or once it has the list.
	basis := w.snapshot("acme").Basis.Namespaces
	w.newNamespace("later", ownerLabel, "blue")
	w.checkNow()
	w.checkNow()
	list.end()
	w.create(w.sized("a", "after", 4)) // visible only after the list
	w.wantDemand("blue", "7 by 2")
	w.wantDemand("acme", "")
	if now := w.snapshot("acme").Basis.Namespaces; now <= basis {
		t.Errorf("the demand rests on the namespaces of version %d, and before on %d", now, basis)
	}
}

// While objects are listed again, their namespace changes hands again and again. The list counts all the same, and
// there is no other one.
func TestWatcherGetsAListWhileNamespacesChange(t *testing.T) {
	t.Parallel()
	w := newOwned(t)
	w.create(w.sized("a", "one", 3))
	w.wantDemand("acme", "3 by 1")
	lists := func() int {
		isList := isListOf("configmaps")
		return len(w.wire.sent(func(r *http.Request) bool { return isList(r) && strings.HasSuffix(r.URL.Path, "/v1/configmaps") }))
	}

	w.wire.refuse(1, http.StatusGone, metav1.StatusReasonExpired, isWatchOf("configmaps"))
	list := w.wire.holdEvents("configmaps", metav1.InitialEventsAnnotationKey)
	defer list.end()
	w.wire.cut("configmaps")
	w.waitFor(list.reached)
	before := lists()
	for _, owner := range []string{"blue", "acme", "core"} {
		w.label("a", ownerLabel, owner)
		w.checkNow()
	}
	list.end()
	w.create(w.sized("a", "after", 4)) // visible only after the list
	w.wantDemand("core", "7 by 2")
	w.wantDemand("acme", "")
	if now := lists(); now != before {
		t.Errorf("there were %d lists, and now %d", before, now)
	}
}

// Several namespaces change hands. Either all of them count by their new owners, or none, at each version.
func TestWatcherCountsRelabelsTogether(t *testing.T) {
	t.Parallel()
	w := newOwned(t)
	w.newNamespace("b", ownerLabel, "acme")
	w.newNamespace("c", ownerLabel, "acme")
	for _, namespace := range []string{"a", "b", "c"} {
		w.create(w.sized(namespace, "one", 1))
	}
	w.wantDemand("acme", "3 by 3")

	w.newNamespace("first", ownerLabel, "acme")
	first, second := w.wire.holdLists("configmaps", "-first/configmaps"), w.wire.holdLists("configmaps", "-a/configmaps")
	third := w.wire.holdLists("configmaps", "-c/configmaps")
	defer first.end()
	defer second.end()
	defer third.end()
	w.label("first", ownerLabel, "blue")
	w.waitFor(first.reached)
	for _, namespace := range []string{"a", "b", "c"} {
		w.label(namespace, ownerLabel, "blue")
	}
	first.end()
	w.waitFor(second.reached)
	before := w.snapshot("acme")
	second.end()
	w.waitFor(third.reached)
	w.wantTraceable(before)
	third.end()
	w.wantDemand("acme", "")
	w.wantDemand("blue", "3 by 3")
	w.wantTraceable(before)
}

// A namespace that cannot be looked up for a while loses no object.
func TestWatcherLooksUpNamespacesUntilItCan(t *testing.T) {
	t.Parallel()
	for name, begins := range map[string]func(*watched, func()){
		"created": func(_ *watched, create func()) { create() },
		"listed": func(w *watched, create func()) {
			watches := w.wire.holdWatches("configmaps")
			defer watches.end()
			w.wire.refuse(1, http.StatusGone, metav1.StatusReasonExpired, isWatchOf("configmaps"))
			w.wire.cut("configmaps")
			w.waitFor(watches.reached)
			create()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newOwned(t)
			namespaces := w.wire.holdEvents("namespaces", "")
			defer namespaces.end()
			refused := w.wire.refuse(1, http.StatusInternalServerError, metav1.StatusReasonInternalError, func(r *http.Request) bool {
				return path.Base(r.URL.Path) == w.namespace("b")
			})
			begins(w, func() {
				w.newNamespace("b", ownerLabel, "blue")
				w.create(w.sized("b", "one", 3))
			})
			w.waitFor(refused)
			w.wantDemand("blue", "3 by 1")
		})
	}
}

// Objects of namespaces that are being deleted count until they are gone.
func TestWatcherOfANamespaceThatEnds(t *testing.T) {
	t.Parallel()
	w := newOwned(t)
	object := w.sized("a", "one", 3)
	object.Finalizers = []string{"example.com/wait"}
	w.create(object)
	w.wantDemand("acme", "3 by 1")
	w.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace("a")}})
	w.wantTold("begins", w.heard.began, object)
	w.wantDemand("acme", "3 by 1")
	edit(w, object, func(o *corev1.ConfigMap) { o.Finalizers = nil })
	w.wantDemand("acme", "")
	eventually(t, func() error {
		if err := w.api.Get(w.ctx, client.ObjectKey{Name: w.namespace("a")}, &corev1.Namespace{}); err == nil {
			return fmt.Errorf("the namespace still exists")
		}
		return nil
	})
}
