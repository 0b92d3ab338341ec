package watcher

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

// deliveryMin is how long the watch has to deliver what the API server has already: after a consistent read through the
// same connection its cache has all earlier changes, and they are on their way. On a busy machine it has deliveryReads
// times as long as the read took.
const deliveryMin, deliveryReads = 20 * time.Millisecond, 5

// freshness waits until the watch of a kind is as recent as the API server.
type freshness struct {
	// The caller that asks the API server holds asking.
	asking chan struct{}

	mu sync.Mutex
	// asked is when the latest completed question began.
	asked time.Time
	// changed is closed after the next version.
	changed chan struct{}
	// isOpen is true while there is a watch. isListing is true from the beginning of a list until the inventory has it.
	isOpen, isListing bool
	// busy counts those who handle the present event, one within the other.
	busy int
}

func newFreshness() freshness {
	return freshness{asking: make(chan struct{}, 1), changed: make(chan struct{})}
}

// begin notes that an event is being handled, until the call of end.
func (f *freshness) begin() (end func()) {
	add := func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy += n
	}
	add(1)
	return func() { add(-1) }
}

// follow notes that there is a watch, until it ends.
func (f *freshness) follow(opened watch.Interface) watch.Interface {
	f.setOpen(true)
	return connection{opened, f}
}

func (f *freshness) setOpen(isOpen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isOpen = isOpen
}

// connection is a watch that notes its end.
type connection struct {
	watch.Interface
	freshness *freshness
}

// Stop implements [watch.Interface]. The reflector calls it at the end of every watch.
func (c connection) Stop() {
	c.freshness.setOpen(false)
	c.Interface.Stop()
}

// setListing notes the beginning of a list, or that the inventory has it. A list that fails goes on with the next one.
func (f *freshness) setListing(isListing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isListing = isListing
}

// awaitsList reports whether the inventory is about to get a list.
func (f *freshness) awaitsList() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isListing
}

// isIdle reports whether there is a watch without an event to handle. A watch that begins with a list has one to handle
// until the end of the list.
func (f *freshness) isIdle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isOpen && f.busy == 0 && !f.isListing
}

// moved notes that the watch has a later version.
func (f *freshness) moved() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *freshness) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// CatchUp implements [ledgerstore.Inventory]: it waits until the inventory shows what the API server had when it was
// called. So deletions and reductions before the call are in it. All who call at the same time share one question. It
// fails for a kind that is not counted here.
func (w *Watcher) CatchUp(ctx context.Context, kinds []string) error {
	for _, kind := range kinds {
		w.mu.Lock()
		current := w.current[kind]
		w.mu.Unlock()
		if current == nil {
			return fmt.Errorf("the objects of kind %s have not been counted yet", kind)
		}
		if err := current.catchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (k *kindWatch) catchUp(ctx context.Context) error {
	f, called := &k.freshness, time.Now()
	select {
	case f.asking <- struct{}{}:
		defer func() { <-f.asking }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the latest %s: %w", k.resource.Resource, ctx.Err())
	}
	if f.wasAskedAfter(called) {
		return nil
	}

	began := time.Now()
	version, err := k.liveVersion(ctx, k.resource)
	if err != nil {
		return err
	}
	delivery := max(deliveryMin, deliveryReads*time.Since(began))
	if !k.awaitVersion(ctx, version, delivery) && !f.isIdle() {
		return fmt.Errorf("the watch of %s lags behind", k.resource.Resource)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = began
	return nil
}

func (f *freshness) wasAskedAfter(t time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked.After(t)
}

// liveVersion returns a version of a resource that is not earlier than any change before the call.
func (w *Watcher) liveVersion(ctx context.Context, resource schema.GroupVersionResource) (ledger.Version, error) {
	list, err := w.Metadata.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("find the latest version of the %s: %w", resource.Resource, err)
	}
	return ledger.ParseVersion(list.ResourceVersion)
}

// awaitVersion waits until the inventory has a version, or for some time without a change, and reports whether it has.
// A watch without events need not tell that it has reached a version.
func (k *kindWatch) awaitVersion(ctx context.Context, version ledger.Version, quiet time.Duration) bool {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		changed := k.freshness.next()
		if basis, _ := k.target.Basis(); basis.Objects >= version {
			return true
		}
		select {
		case <-changed:
			timer.Reset(quiet)
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// Live returns, by kind, what an observation has to rest on to show everything before the call. It has all kinds that
// this process counts by policies.
func (w *Watcher) Live(ctx context.Context) map[string]inventory.Live {
	all := map[string]inventory.Live{}
	policies, err := w.liveVersion(ctx, policiesResource)
	for name, running := range w.running() {
		if name == inventory.Claims {
			continue
		}
		live := inventory.Live{Err: err}
		for _, p := range running.policies {
			live.ResourceTypes = append(live.ResourceTypes, p.ResourceTypes...)
		}
		if err == nil {
			live.Basis, live.Err = running.liveBasis(ctx, policies)
		}
		all[name] = live
	}
	w.Refresh() // so that the inventory gets there without another change
	return all
}

func (k *kindWatch) liveBasis(ctx context.Context, policies ledger.Version) (ledger.Basis, error) {
	basis := ledger.Basis{Policies: policies}
	var err error
	if basis.Objects, err = k.liveVersion(ctx, k.resource); err != nil || !k.usesNamespaces {
		return basis, err
	}
	basis.Namespaces, err = k.liveVersion(ctx, namespacesResource)
	return basis, err
}
