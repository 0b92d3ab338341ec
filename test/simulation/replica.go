package simulation

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/enforce"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/controller/view"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/journal/shipper"
	"github.com/bursar/bursar/internal/kube/apiclient"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

const (
	systemNamespace = "bursar-system"
	// requestTimeout is the timeout of the API servers.
	requestTimeout = 10 * time.Second
)

// host is a machine that runs one replica after another.
type host struct {
	*World
	number int
	// thinks is the number of the preferred host, in the opinion of this one.
	thinks  atomic.Int32
	current atomic.Pointer[replica]
	// gate lets reviews and answers pass, and api the requests to the API servers.
	gate, api controlplane.Gate
}

// replica is one process of Bursar, put together as package operator does.
type replica struct {
	*host
	// working ends with the process.
	working context.Context //nolint:containedctx // the life of the process
	end     context.CancelFunc
	// isReady is set once it answers reviews.
	isReady atomic.Bool

	// clients reach the API servers, and declared has what the administrators have declared, as known tells.
	clients    *clients
	known      ctrlcache.Cache
	declared   *catalog.Catalog
	namespaces *namespaces.Namespaces

	store     *ledgerstore.Store
	recorded  *shipper.Shipper
	watcher   *watcher.Watcher
	engine    *engine.Engine
	claims    *claimcache.Cache
	objects   *objectcache.Cache
	evaluator *evaluator.Evaluator
	handler   *enforce.Handler
	// views shows the demand of objects in claims while this process leads. Otherwise it is nil.
	views atomic.Pointer[view.Controller]
}

// IsPreferred implements [routing.Replicas] and [ledgerstore.Replicas]: each host has its own opinion.
func (h *host) IsPreferred(quotav1alpha1.ConsumerRef) bool { return int(h.thinks.Load()) == h.number }

// IsOnly implements [routing.Replicas].
func (h *host) IsOnly() bool { return len(h.hosts) == 1 }

// CanRead implements [ledgerstore.Replicas].
func (h *host) CanRead(int64) bool { return true }

// kill ends the process in the middle of its work.
func (h *host) kill() {
	if r := h.current.Load(); r != nil {
		r.end()
	}
}

// start starts a process. An earlier one ends.
func (h *host) start() {
	h.kill()
	r := &replica{host: h}
	r.working, r.end = context.WithCancel(context.Background())
	connection := controlplane.Connect(r.working, &route{World: h.World}, &h.api)
	config := apiclient.WithTimeouts(&rest.Config{Host: "http://simulated", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, Transport: connection}, apiclient.DefaultTimeouts)
	h.must(r.assemble(config))
	h.current.Store(r)
}

func (w *World) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// log returns the log of a process. It is part of the trace.
func (r *replica) log(name string) logr.Logger {
	return funcr.New(func(_, args string) { r.note("host %d, %s: %s", r.number, name, args) }, funcr.Options{})
}

// retire ends the process as an update of the deployment does.
func (r *replica) retire() {
	r.isReady.Store(false)
	ctx, cancel := context.WithTimeout(r.working, 3*time.Second)
	defer cancel()
	_ = r.store.Flush(ctx)
	r.end()
}
