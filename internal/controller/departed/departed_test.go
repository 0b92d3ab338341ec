package departed

import (
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestIsEmpty(t *testing.T) {
	tests := map[string]struct {
		reason string
		change func(*quotav1alpha1.ConsumerLedgerSpec)
		want   bool
	}{
		"nothing": {"no one needs it", func(*quotav1alpha1.ConsumerLedgerSpec) {}, true},
		"observed demand": {"the objects exist and count", func(s *quotav1alpha1.ConsumerLedgerSpec) {
			s.Observations = []quotav1alpha1.LedgerObservation{{Kind: "pods", Demands: []quotav1alpha1.LedgerDemand{{ResourceType: "cpu", Objects: 1}}}}
		}, false},
		"observation of nothing": {"the last object was deleted", func(s *quotav1alpha1.ConsumerLedgerSpec) {
			s.Observations = []quotav1alpha1.LedgerObservation{{Kind: "pods", ObjectsVersion: 7}}
		}, true},
		"awaited change": {"an object may appear", func(s *quotav1alpha1.ConsumerLedgerSpec) {
			s.Reservations = []quotav1alpha1.LedgerReservation{{Key: "k", Awaits: &quotav1alpha1.LedgerAwaited{Kind: "pods", ID: "u"}}}
		}, false},
		"later format": {"it may have anything", func(s *quotav1alpha1.ConsumerLedgerSpec) {
			s.Format = quotav1alpha1.ConsumerLedgerFormat + 1
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var ledger quotav1alpha1.ConsumerLedger
			tt.change(&ledger.Spec)

			if got := isEmpty(&ledger); got != tt.want {
				t.Errorf("%s: got %t", tt.reason, got)
			}
		})
	}
}
