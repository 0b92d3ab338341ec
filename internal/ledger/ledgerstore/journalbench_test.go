package ledgerstore_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// BenchmarkEncode encodes a ledger with some reservations in flight, without and with a record of each.
func BenchmarkEncode(b *testing.B) {
	for name, isRecorded := range map[string]bool{"without a journal": false, "with a record of each": true} {
		b.Run(name, func(b *testing.B) {
			l := ledger.New()
			if isRecorded {
				l.StartJournal(1)
			}
			const reservations = 10
			for i := range reservations {
				l.ReserveOverdraft(ledger.Reservation{
					Key: fmt.Sprintf("projects/5a1c1c1e-0b9e-4f0e-9d4e-%012d", i), ReservedAt: 1795705791, Actor: "tom@example.com",
					Charges: []ledger.Charge{{ResourceType: "resourcemanager.example.com/projects", Amount: 1}},
					Claim:   `{"claim":"acme/project-web","apiVersion":"resourcemanager.example.com/v1","kind":"Project","object":"acme/web"}`,
				})
			}
			bytes := 0
			for b.Loop() {
				spec := ledgerstore.SpecOf(acme, l.Snapshot())
				encoded, err := json.Marshal(&spec)
				if err != nil {
					b.Fatal(err)
				}
				bytes = len(encoded)
			}
			b.ReportMetric(float64(bytes)/reservations, "bytes/reservation")
		})
	}
}
