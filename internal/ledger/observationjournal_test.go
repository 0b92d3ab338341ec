package ledger_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/ledger"
)

// onlyObject is an observer that has watched one object, and knows what changed since the latest observation.
type onlyObject struct {
	sees    ledger.Visibility
	changes []ledger.ObjectChange
	hasAll  bool
}

func (o onlyObject) Visibility(*ledger.Reservation) ledger.Visibility { return o.sees }

func (o onlyObject) ChangesSince(ledger.Basis) ([]ledger.ObjectChange, bool) {
	return o.changes, o.hasAll
}

// ofMaps are charges of one amount.
func ofMaps(amount ledger.Amount) []ledger.Charge {
	return []ledger.Charge{{ResourceType: mapsType, Amount: amount}}
}

// become is the change of the object by which its demand differs by an amount.
func become(kind ledger.ChangeKind, amount ledger.Amount) []ledger.ObjectChange {
	return []ledger.ObjectChange{{Kind: kind, ID: "1", Subject: "the map", Changes: ofMaps(amount)}}
}

// While an object counts beside its request, because observed demand rests on earlier policies, the journal has the
// object once by name: by the admission of the request. The rest are recounts, and the sum is right at each moment.
func TestEarlyObservationIsARecount(t *testing.T) {
	type step struct {
		basis  ledger.Basis
		demand ledger.Amount
		by     onlyObject
	}
	visible := ledger.Visibility{Version: 2}
	appears := step{ledger.Basis{Objects: 2, Policies: 1}, 4, onlyObject{visible, become(ledger.KindAdmitted, 4), true}}
	tests := map[string]struct {
		reason string
		after  ledger.Version // of the request
		steps  []step
		want   []string
	}{
		"in time": {"the admission has it", 0, []step{
			{ledger.Basis{Objects: 2, Policies: 2}, 4, onlyObject{visible, become(ledger.KindAdmitted, 4), true}},
		}, []string{"admitted 4 by ann"}},
		"early": {"the end of the request takes the double count away", 0, []step{
			appears, {ledger.Basis{Objects: 2, Policies: 2}, 4, onlyObject{visible, nil, false}},
		}, []string{"admitted 4 by ann", "recounted 4", "recounted -4"}},
		"early, with all changes known": {"the object has not changed", 0, []step{
			appears, {ledger.Basis{Objects: 2, Policies: 2}, 4, onlyObject{visible, nil, true}},
		}, []string{"admitted 4 by ann", "recounted 4", "recounted -4"}},
		"early, then grown": {"the object has grown beside the end of the request", 0, []step{
			appears, {ledger.Basis{Objects: 2, Policies: 1}, 4, onlyObject{visible, nil, true}},
			{ledger.Basis{Objects: 2, Policies: 2}, 5, onlyObject{visible, become(ledger.KindChanged, 1), true}},
		}, []string{"admitted 4 by ann", "recounted 4", "changed 1", "recounted -4"}},
		"early, then more by later policies": {"nobody knows how much of it is by the policies", 0, []step{
			appears, {ledger.Basis{Objects: 2, Policies: 2}, 5, onlyObject{visible, nil, false}},
		}, []string{"admitted 4 by ann", "recounted 4", "recounted -3"}},
		"an update without an effect": {"its object has changed otherwise", 1, []step{
			{ledger.Basis{Objects: 2, Policies: 2}, 0, onlyObject{visible, nil, true}},
		}, []string{"admitted 4 by ann", "canceled -4"}},
		"early, then deleted": {"the request was admitted and released once", 0, []step{
			appears, {ledger.Basis{Objects: 3, Policies: 1}, 0, onlyObject{ledger.Visibility{IsDeleted: true}, become(ledger.KindReleased, -4), true}},
		}, []string{"admitted 4 by ann", "recounted 4", "released -4", "recounted -4"}},
		"an early update": {"the object grew once", 1, []step{
			{ledger.Basis{Objects: 2, Policies: 1}, 4, onlyObject{visible, become(ledger.KindChanged, 4), true}},
			{ledger.Basis{Objects: 2, Policies: 2}, 4, onlyObject{visible, nil, false}},
		}, []string{"admitted 4 by ann", "recounted 4", "recounted -4"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := ledger.New()
			l.StartJournal(1)
			journal := &reader{t: t}
			r := ledger.Reservation{
				Key: "k", Subject: "the map", Actor: "ann", Charges: ofMaps(4),
				Awaits: &ledger.Awaited{Kind: mapsKind, ID: "1", After: tt.after, Policies: 2},
			}
			if d := l.ReserveOverdraft(r); d.Code != ledger.Admitted {
				t.Fatal(d)
			}
			l.MarkStored()
			journal.read(l)

			for _, s := range tt.steps {
				o := ledger.Observation{Kind: mapsKind, Basis: s.basis}
				if s.demand > 0 {
					o.Demands = []ledger.Demand{{ResourceType: mapsType, Amount: s.demand, Objects: 1}}
				}
				if _, err := l.Observe(o, s.by); err != nil {
					t.Fatal(err)
				}
				l.MarkStored()
				journal.read(l) // compares the sums
			}

			if diff := cmp.Diff(tt.want, recordsOf(l)); diff != "" {
				t.Errorf("%s: the records differ (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// recordsOf returns the records of a ledger as texts.
func recordsOf(l *ledger.Ledger) (texts []string) {
	for _, r := range l.Snapshot().Journal.Records {
		text := fmt.Sprintf("%s %d", r.Kind, r.Changes[0].Amount)
		if r.Actor != "" {
			text += " by " + r.Actor
		}
		texts = append(texts, text)
	}
	return texts
}
