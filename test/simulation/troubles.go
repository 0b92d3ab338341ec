package simulation

import (
	"context"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// disturb makes troubles until ctx ends.
func (w *World) disturb(ctx context.Context) {
	generation := int64(1)
	for pause(ctx, w.upTo(w.shape.trouble)) {
		h, server := w.hosts[w.roll(len(w.hosts))], w.servers[w.roll(len(w.servers))]
		switch what := w.roll(15); what {
		case 0, 1:
			w.note("host %d crashes", h.number)
			h.kill()
			w.later(8*time.Second, h.start)
		case 2:
			w.note("host %d is updated", h.number)
			w.users.Go(func() {
				h.current.Load().retire()
				time.Sleep(w.upTo(4 * time.Second))
				h.start()
			})
			pause(ctx, 8*time.Second)
		case 3:
			if w.roll(2) == 0 {
				h = w.hosts[h.thinks.Load()] // it may hold a slice
			}
			w.note("host %d stands still", h.number)
			h.gate.Shut()
			h.api.Shut()
			w.later(w.shape.stall, h.open)
			w.prefer(w.roll(len(w.hosts)))
		case 4:
			w.note("an API server ends")
			server.Stop()
			w.later(4*time.Second, server.Start)
		case 5:
			w.note("etcd is compacted")
			w.store.Compact()
		case 6:
			if w.roll(2) == 0 {
				h = w.hosts[h.thinks.Load()]
			}
			w.note("host %d is cut off from the API servers", h.number)
			h.api.Shut()
			w.later(w.shape.stall, h.open)
			w.prefer(w.roll(len(w.hosts)))
		case 7:
			if w.shape.changesLimits {
				generation++
				w.changeLimit(ctx, generation)
			}
		case 8, 9, 10:
			w.changeDemand(ctx, what)
		case 11:
			namespace := consumer(w.roll(w.shape.consumers)).Name
			w.note("namespace %s refuses claims", namespace)
			w.setRefusing(namespace, true)
			w.later(w.shape.stall, func() { w.setRefusing(namespace, false) })
		default:
			w.prefer(w.roll(len(w.hosts)))
		}
	}
}

// changeDemand changes what existing objects demand, or hides them for a while.
func (w *World) changeDemand(ctx context.Context, what int) {
	switch {
	case what == 8 && w.shape.movesNamespaces:
		w.moveNamespace(consumer(w.roll(w.shape.consumers)).Name, consumer(w.roll(w.shape.consumers)).Name)
	case what == 9 && w.shape.countsObjects() && w.roll(2) == 0:
		w.note("nobody serves ConfigMaps")
		w.setAway(true)
		w.later(w.shape.stall, func() { w.setAway(false) })
	case what == 10 && w.shape.changesPolicy:
		w.changePolicy(ctx, int64(1+w.roll(2)))
	}
}

// setAway makes nobody serve ConfigMaps, or somebody again.
func (w *World) setAway(isAway bool) {
	for _, server := range w.servers {
		server.SetAway("configmaps", isAway)
	}
}

// setRefusing makes a namespace refuse claims, or accept them again.
func (w *World) setRefusing(namespace string, refuses bool) {
	for _, server := range w.servers {
		server.Refuse(namespace, refuses)
	}
}

// open lets everything pass again.
func (h *host) open() {
	h.gate.Open()
	h.api.Open()
}

// later does something after a while, before the world is calm again.
func (w *World) later(bound time.Duration, f func()) {
	ctx := w.t.Context()
	w.users.Go(func() {
		pause(ctx, w.upTo(bound))
		f()
	})
}

// prefer has the hosts, except for those standing still, change their minds about the preferred one, each at its own
// time.
func (w *World) prefer(number int) {
	w.note("host %d becomes preferred", number)
	for _, h := range w.hosts {
		if !h.api.IsShut() {
			time.AfterFunc(w.upTo(5*time.Second), func() {
				if !w.calm() {
					h.thinks.Store(int32(number))
				}
			})
		}
	}
}

// changeLimit sets another limit.
func (w *World) changeLimit(ctx context.Context, generation int64) {
	of, limit := consumer(w.roll(w.shape.consumers)), w.shape.limit-10+int64(w.roll(30))
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := w.hosts[w.roll(len(w.hosts))].current.Load().setLimit(ctx, of, generation, limit)
	w.note("the limit of %s becomes %d: %v", of.Name, limit, err)
}

// conclude ends all troubles, and checks that everything agrees and works.
func (w *World) conclude() {
	w.setCalm(true)
	w.note("all is calm")
	if w.shape.changesPolicy {
		w.changePolicy(w.t.Context(), 1)
	}
	w.setAway(false)
	for number := range w.shape.consumers {
		w.setRefusing(consumer(number).Name, false)
		if w.shape.movesNamespaces {
			w.moveNamespace(consumer(number).Name, consumer(number).Name)
		}
	}
	for _, server := range w.servers {
		if server.IsDown() {
			server.Start()
		}
	}
	for _, h := range w.hosts {
		h.open()
		if h.current.Load().working.Err() != nil || !h.current.Load().isReady.Load() {
			h.start()
		}
		h.thinks.Store(0)
	}
	w.settleDown("the replicas are ready", w.replicasAreReady)
	if first := w.hosts[0].current.Load(); first.views.Load() == nil {
		views := first.beginViews()
		w.processes.Go(func() { _ = views.Run(first.working) })
	}
	w.settleDown("everybody knows who pays for the objects", w.model.isKnownWhoPays)
	w.settleDown("objects, claims and ledgers agree", w.model.agreement)
	if w.t.Failed() {
		return
	}
	for number := range w.shape.consumers {
		w.fill(number)
	}
	w.settleDown("objects, claims and ledgers agree about the last objects", w.model.agreement)
	time.Sleep(2 * (requestTimeout + ledgerstore.ReservationMargin))
	if err := w.model.agreement(); err != nil {
		w.violate("objects, claims and ledgers agree no longer: %v", err)
	}
	w.settleDown("the journal gives the ledgers", w.givesTheLedgers)
}

// fill uses all free quota of a consumer, and asks for more.
func (w *World) fill(number int) {
	of := consumer(number)
	now := w.model.totalOf(of)
	if rest := now.limit - now.used; rest > 0 {
		last := w.newMap(rest)
		last.Namespace = of.Name
		if answer := w.create(last, false); answer == nil || !answer.Allowed {
			w.violate("the last %d of %s are not given: %+v", rest, of.Name, answer)
		}
	}
	answer := w.createMore(of.Name)
	for range 100 {
		if answer == nil || answer.Allowed || answer.Result.Code == http.StatusForbidden {
			break
		}
		time.Sleep(time.Second) // the last object is held until the watch shows it, or nobody has counted the objects yet
		answer = w.createMore(of.Name)
	}
	if answer == nil || answer.Allowed || answer.Result.Code != http.StatusForbidden {
		w.violate("%s gets more than everything, or no answer: %+v", of.Name, answer)
	}
}

// createMore reviews one more object of a consumer with nothing left.
func (w *World) createMore(namespace string) *admissionv1.AdmissionResponse {
	more := w.newMap(1)
	more.Namespace = namespace
	return w.create(more, false)
}

func (w *World) replicasAreReady() error {
	for _, h := range w.hosts {
		if !h.current.Load().isReady.Load() {
			return fmt.Errorf("that of host %d is not", h.number)
		}
	}
	return nil
}
