package engine_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/controller/claim"
	"github.com/bursar/bursar/internal/controller/lifecycle"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/routing"
)

// A process stands still before it makes the claim of its reservation. When it goes on, another process has taken the
// reservation over and made the claim. In the one case the claim is still there, in the other another replica
// released it with its object.
func TestProcessThatStoodStill(t *testing.T) {
	for name, tt := range map[string]struct {
		reason    string
		meanwhile func(s *stage, other *ledgerstore.Store, taken ledgerstore.InFlight)
		isMade    bool
		want      []string
	}{
		"nothing happened": {
			"the claim is made, granted and settled", nil,
			true, []string{"acme uses 15, 0 in flight", "claim of acme for 5"},
		},
		"settled": {
			"the claim is found made", func(s *stage, other *ledgerstore.Store, r ledgerstore.InFlight) {
				s.claim(r, true)
				other.Settle(acme, r.Key, r.Sequence)
			},
			false, []string{"acme uses 15, 0 in flight", "claim of acme for 5"},
		},
		"released": {
			"the second claim goes, and frees nothing that others use", func(s *stage, other *ledgerstore.Store, r ledgerstore.InFlight) {
				s.must(other.Cancel(s.Context(), acme, r.Key, r.Sequence)) // the ledger is then the same as after settling and releasing
			},
			true, []string{"acme uses 10, 0 in flight"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.othersUse(acme, 10)
				reservation := s.reserve(acme, 5)
				if tt.meanwhile != nil {
					other := ledgerstore.New(t.Context(), s.memory.Connect(nil))
					taken, ok, err := other.TakeOver(t.Context(), acme, reservation.Key, reservation.Sequence)
					s.must(err)
					if !ok {
						t.Fatal("the reservation was not taken over")
					}
					tt.meanwhile(s, other, taken)
				}
				synctest.Wait()
				time.Sleep(settling)
				standing := s.standing(s.store)
				isMade, err := standing.Engine.Materialize(t.Context(), reservation)
				s.must(err)
				if isMade != tt.isMade {
					t.Errorf("%s: made: %t, want %t", tt.reason, isMade, tt.isMade)
				}
				synctest.Wait()
				time.Sleep(settling)
				if standing.Engine.Queue().Len() > 0 {
					s.must(standing.Engine.Process(t.Context(), theFleet))
				}
				synctest.Wait()
				time.Sleep(settling)
				if diff := cmp.Diff(tt.want, s.outcome()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
			})
		})
	}
}

// standing returns a controller. It follows claims, and runs on demand. Another replica releases claims.
func (s *stage) standing(store *ledgerstore.Store) *lifecycle.Controller {
	s.Helper()
	scheme := runtime.NewScheme()
	s.must(metav1.AddMetaToScheme(scheme))
	client := s.server.Client(s)
	newEngine := func(store *ledgerstore.Store) *engine.Engine {
		e := engine.New(engine.Dependencies{
			Store: store, Objects: objectcache.New(metadatafake.NewSimpleMetadataClient(scheme), onlyFleets{}), Claims: claimcache.New(), Client: client,
			Catalog: catalog.New(), SystemNamespace: "sys", Log: logr.Discard(),
		})
		s.Cleanup(e.Queue().ShutDown)
		return e
	}
	transitions, other := newEngine(store), newEngine(ledgerstore.New(s.Context(), s.memory.Connect(nil)))
	c := &lifecycle.Controller{Store: store, Engine: transitions, Objects: transitions.Objects, Claims: transitions.Claims, Replicas: (*routing.Peers)(nil), Log: logr.Discard()}
	c.Start()
	releasing := &claim.Controller{Store: other.Store, Engine: other, Claims: other.Claims, Client: client, Catalog: other.Catalog, Replicas: (*routing.Peers)(nil), Log: logr.Discard()}
	releasing.Start()
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	go c.Claims.Run(ctx, client.REST())
	go other.Claims.Run(ctx, client.REST())
	s.must(errors.Join(c.Claims.WaitForSync(ctx), other.Claims.WaitForSync(ctx)))
	go func() { _ = releasing.Run(ctx) }()
	return c
}

// The claim of a reservation is there already: a process has sent it without an answer. It is the claim of this
// reservation, and not a second one of its object.
func TestClaimIsThereAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.othersUse(acme, 10)
		reservation := s.reserve(acme, 5)
		making := s.standing(s.store)
		s.server.Intercept(func(method, _ string) bool {
			if method == http.MethodPost {
				s.claim(reservation, true) // just before this one
			}
			return false
		})

		isMade, err := making.Engine.Materialize(t.Context(), reservation)

		s.must(err)
		if !isMade {
			t.Error("it counts as a second one")
		}
		s.server.Change("claim-a", func(*quotav1alpha1.ResourceClaim) {}) // the cache sees it
		time.Sleep(settling)
		synctest.Wait()
		if diff := cmp.Diff([]string{"acme uses 15, 0 in flight", "claim of acme for 5"}, s.outcome()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A process is about to make a claim when another expires its reservation, because somebody deleted the object. In
// either order, the charges of other objects stay in the ledger.
func TestExpiresWhileItIsMade(t *testing.T) {
	for name, isMadeFirst := range map[string]bool{"made, then taken away": true, "taken away, then made": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.othersUse(acme, 10)
				reservation := s.reserve(acme, 5)
				making := s.standing(s.store)
				givingUp := s.run(nil, nil)
				isSent, mayArrive, isMade := make(chan struct{}), make(chan struct{}), make(chan struct{})
				s.server.Intercept(func(method, _ string) bool {
					if method == http.MethodPost {
						close(isSent)
						<-mayArrive
					}
					return false
				})
				go func() {
					defer close(isMade)
					if _, err := making.Engine.Materialize(t.Context(), reservation); err != nil {
						t.Error(err)
					}
				}()
				<-isSent
				if isMadeFirst {
					close(mayArrive)
					<-isMade
				}
				ofAnother := reservation
				ofAnother.IsOwn = false
				s.must(givingUp.Engine.Expire(t.Context(), ofAnother))
				if !isMadeFirst {
					close(mayArrive)
					<-isMade
				}
				s.wantFinally("the use of others stays in the ledger", "acme uses 10, 0 in flight")
			})
		})
	}
}

// A process still has an expired reservation of another process. It finds the claim of the next one, before its
// grant. It does not change that claim.
func TestReservationThatIsOutOfDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		givenUp := s.reserve(acme, 2)
		s.must(s.store.Cancel(t.Context(), acme, givenUp.Key, givenUp.Sequence))
		next := s.reserve(acme, 2)
		claim := s.claim(next, false)
		_, err := s.standing(ledgerstore.New(t.Context(), s.memory.Connect(nil))).Engine.Materialize(t.Context(), givenUp)
		s.must(err)
		if stored := s.server.Get(claim.Name); stored == nil || claims.IsSuperseded(stored) || claims.SequenceOf(stored) != next.Sequence {
			t.Errorf("the claim of the next reservation became %+v", stored)
		}
		synctest.Wait()
	})
}

// Nobody needs a record of a reservation without a claim.
func TestExpiresWithoutAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.reserve(acme, 2)
		s.run(fleets(), nil)
		s.wantFinally("the object never came")
		if records := s.memory.Snapshot(acme).Released; len(records) > 0 {
			t.Errorf("the ledger remembers %q, want nothing", records)
		}
	})
}
