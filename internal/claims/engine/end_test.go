package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// soon is far shorter than the life of a reservation.
const soon = 10 * time.Second

// wantSoon compares the outcome long before the end of a reservation's life.
func (s *stage) wantSoon(reason string, want ...string) {
	s.Helper()
	time.Sleep(soon)
	synctest.Wait()
	if diff := cmp.Diff(want, s.outcome()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func TestReservationEndsWithItsCreate(t *testing.T) {
	for name, tt := range map[string]struct {
		reason  string
		exists  bool
		isEnded bool
		want    []string
	}{
		"failed":    {"nothing makes the object any more", false, true, nil},
		"succeeded": {"the answer of the API server proves nothing", true, true, []string{"acme uses 5, 0 in flight", "claim of acme for 5"}},
		"under way": {"the object may come", false, false, []string{"acme uses 0, 1 in flight"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.reserve(acme, 5)
				object := fleet("1", "acme", 5)
				if !tt.exists {
					object = nil
				}
				c := s.run(fleets(), object)

				if tt.isEnded {
					c.Engine.EndCreate(theFleet)
				}

				s.wantSoon(tt.reason, tt.want...)
			})
		})
	}
}
