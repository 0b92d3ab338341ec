package lifecycle

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claimcache"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/protected"
)

// A process stands still before it makes the claim of a reservation. When it goes on, another process has
// done that; in the one case the claim is there still, in the other it was released with its object, or the
// reservation given up.
func TestProcessThatStoodStill(t *testing.T) {
	for name, tt := range map[string]struct {
		reason    string
		meanwhile func(s *stage, other *ledgerstore.Store, reservation ledgerstore.Pending)
		isMade    bool
		want      []string
	}{
		"nothing happened": {
			"the claim is made, granted and settled", func(*stage, *ledgerstore.Store, ledgerstore.Pending) {},
			true, []string{"acme uses 15, 0 in flight", "claim of acme for 5"},
		},
		"settled": {
			"the claim is found made", func(s *stage, other *ledgerstore.Store, r ledgerstore.Pending) {
				s.claim(r, true)
				other.Settle(acme, r.Key, r.Sequence)
			},
			true, []string{"acme uses 15, 0 in flight", "claim of acme for 5"},
		},
		"released": {
			"no second claim is granted, whose release would free what others use", func(s *stage, other *ledgerstore.Store, r ledgerstore.Pending) {
				s.must(other.Cancel(s.Context(), acme, r.Key, r.Sequence)) // which leaves the books as settling and releasing does
			},
			false, []string{"acme uses 10, 0 in flight"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.othersUse(acme, 10)
				reservation := s.reserve(acme, 5, "")
				tt.meanwhile(s, ledgerstore.New(t.Context(), s.memory.Connect(nil)), reservation)
				synctest.Wait()
				time.Sleep(time.Second) // settling is lazy
				client, err := claims.NewClient(&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: direct{s.server}})
				s.must(err)
				c := &Controller{
					Store: s.store, Objects: protected.New(nil, &withheld{}), Claims: claimcache.New(), Client: client,
					Catalog: catalog.New(), SystemNamespace: "sys", Log: logr.Discard(),
				}
				c.Start()
				defer c.queue.ShutDown()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go c.Claims.Run(ctx, client.REST())
				s.must(c.Claims.WaitForSync(ctx))
				isMade, err := c.materialize(t.Context(), reservation)
				s.must(err)
				if isMade != tt.isMade {
					t.Errorf("%s: made: %t, want %t", tt.reason, isMade, tt.isMade)
				}
				synctest.Wait()
				time.Sleep(time.Second)
				if diff := cmp.Diff(tt.want, s.outcome()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
				}
			})
		})
	}
}
