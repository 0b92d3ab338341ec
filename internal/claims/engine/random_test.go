package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/ledger"
)

// walk is a random life of the fleet, with failing requests and dying processes.
type walk struct {
	*stage
	*rand.Rand
	controller *lifecycle.Controller
	// version, payer and replicas are the stored state of the fleet.
	version  int
	payer    string
	replicas int64
	// said is the log of the steps, for debugging a failure.
	said []string
}

func (w *walk) fleet() *unstructured.Unstructured {
	return fleet(strconv.Itoa(w.version), w.payer, w.replicas)
}

func (w *walk) say(format string, args ...any) { w.said = append(w.said, fmt.Sprintf(format, args...)) }

// asks returns the policy's demand for an object.
func (w *walk) asks(p *catalog.Policy, object *unstructured.Unstructured) *evaluator.Claim {
	w.T.Helper()
	e := w.controller.Engine.Evaluator
	asked, err := e.Evaluate(w.Context(), p, evaluator.ObjectOf(fleetKind, object), e.Input(object.Object))
	w.must(err)
	return asked
}

// review prepares an update as the webhook does, and reports whether the update may proceed.
func (w *walk) review(after *unstructured.Unstructured) bool {
	w.T.Helper()
	e := w.controller.Engine
	p := e.Catalog.Policy("p")
	object := evaluator.ObjectOf(fleetKind, after)
	u := engine.Update{Object: object, Base: strconv.Itoa(w.version), Policy: p, Before: w.asks(p, w.fleet()), After: w.asks(p, after)}
	if evaluator.Same(u.Before, u.After) {
		return true
	}
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	unlock, err := e.Store.LockObject(ctx, string(object.UID))
	if err != nil {
		return false
	}
	defer unlock()
	decision, _, err := e.PrepareUpdate(ctx, u, false, false)
	if err != nil || decision.Code != 0 && decision.Code != ledger.Admitted {
		return errors.Is(err, engine.ErrUnsettled) && u.Before.Covers(u.After) // a reduction passes in any case
	}
	return true
}

// update changes the fleet, with a review or, as without enforcement, without. The update may also fail after the
// review.
func (w *walk) update() {
	w.T.Helper()
	after := fleet(strconv.Itoa(w.version+1), []string{"acme", "zeta"}[w.IntN(2)], int64(w.IntN(4)))
	reviewed := w.IntN(4) > 0
	if reviewed && !w.review(after) {
		w.say("the update from %d is denied", w.version)
		return
	}
	w.controller.Engine.Expect(theFleet, strconv.Itoa(w.version), nil)
	if w.IntN(4) == 0 {
		w.say("the update from %d comes to nothing", w.version)
		return
	}
	w.version++
	w.payer, _, _ = unstructured.NestedString(after.Object, "spec", "payer")
	w.replicas, _, _ = unstructured.NestedInt64(after.Object, "spec", "replicas")
	w.say("update to %d: %d for %s, reviewed: %t", w.version, w.replicas, w.payer, reviewed)
	w.must(w.live.Tracker().Update(fleetResource, after, "ns"))
	w.controller.Engine.Modified(theFleet)
}

// start begins another process. It looks at the fleet as adoption does.
func (w *walk) start() {
	w.T.Helper()
	listed := w.fleet()
	c := w.run(fleets(), listed)
	w.controller = c
	ctx := w.alive
	go func() {
		for ctx.Err() == nil {
			_, err := c.Engine.ReconcileListed(ctx, c.Engine.Catalog.Policy("p"), listed)
			if !evaluator.IsTransient(err) {
				return
			}
			time.Sleep(time.Second)
		}
	}()
}

// step changes the fleet, the API server or the process. Users may not delete the claim while the fleet exists.
func (w *walk) step() {
	w.T.Helper()
	switch n := w.IntN(9); {
	case n < 5:
		w.update()
	case n < 7:
		var failures atomic.Int64
		failures.Store(1 + w.Int64N(6))
		w.say("%d requests fail", failures.Load())
		w.server.Intercept(func(method, name string) bool {
			isList := name == "resourceclaims" && method == http.MethodGet
			return !isList && failures.Add(-1) >= 0
		})
	case n < 8:
		w.say("the process dies")
		w.start()
	default:
		w.say("time passes")
		time.Sleep(time.Duration(w.IntN(90)) * time.Second)
	}
	if w.IntN(2) == 0 {
		synctest.Wait()
	}
}

// After any life, the fleet has one claim for the demand of the policy, and the ledgers have that claim and nothing
// else.
func TestRandomLives(t *testing.T) {
	lives := 200
	if testing.Short() {
		lives = 30
	}
	for seed := range lives {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &walk{stage: newStage(t), Rand: rand.New(rand.NewPCG(uint64(seed), 17)), version: 1, payer: "acme", replicas: 2}
				w.paid(acme, 2)
				w.start()
				for range 3 + w.IntN(8) {
					w.step()
				}
				w.server.Intercept(nil)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				var want []string
				if w.replicas > 0 {
					want = []string{fmt.Sprintf("%s uses %d, 0 in flight", w.payer, w.replicas), fmt.Sprintf("claim of %s for %d", w.payer, w.replicas)}
					if w.payer == "zeta" {
						want[0], want[1] = want[1], want[0]
					}
				}
				if diff := cmp.Diff(want, w.outcome()); diff != "" {
					t.Errorf("%s:\n(-want +got):\n%s", strings.Join(w.said, "; "), diff)
				}
			})
		})
	}
}
