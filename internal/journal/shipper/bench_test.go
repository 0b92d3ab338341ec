package shipper

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal/files"
	"github.com/bursar/bursar/internal/ledger"
)

// unbound is a store without ledgers.
type unbound struct{}

func (unbound) RecordsStored(quotav1alpha1.ConsumerRef, int64) {}
func (unbound) OfferRecords(quotav1alpha1.ConsumerRef)         {}

// BenchmarkCreate measures the cost of the journal for a create beside the shared write: its record in the ledger,
// stored twice, and its entry in a file. CPU time counts, because the machine may be busy.
func BenchmarkCreate(b *testing.B) {
	sink, err := files.NewSink(files.Options{Dir: b.TempDir(), Replica: "a", FileBytesMax: 64 << 20, Retention: 90 * 24 * time.Hour, BytesMax: 1 << 30, Log: logr.Discard()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sink.Close() }()
	s := New(unbound{}, sink, time.Second, logr.Discard())
	consumer := quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.example.com", Kind: "Organization", Name: "acme"}
	l := ledger.New()
	l.StartJournal(1)
	var taken int64
	began := cpuTime(b)
	for i := range b.N {
		l.BeginBatch(time.Now().UnixMilli())
		key := fmt.Sprintf("projects/5a1c1c1e-0b9e-4f0e-9d4e-%012d", i)
		l.ReserveOverdraft(ledger.Reservation{
			Key: key, ReservedAt: time.Now().Unix(), Actor: "tom@example.com", Charges: []ledger.Charge{{ResourceType: "resourcemanager.example.com/projects", Amount: 1}},
			Claim:  `{"claim":"acme/project-web","apiGroup":"resourcemanager.example.com","kind":"Project","object":"acme/web"}`,
			Awaits: &ledger.Awaited{Kind: "projects", ID: key},
		})
		demand := ledger.Demand{ResourceType: "resourcemanager.example.com/projects", Amount: ledger.Amount(i + 1), Objects: int64(i + 1)}
		o := ledger.Observation{Kind: "projects", Basis: ledger.Basis{Objects: ledger.Version(i + 1)}, Demands: []ledger.Demand{demand}}
		if _, err := l.Observe(o, seesAll{}); err != nil {
			b.Fatal(err)
		}
		l.MarkStored()
		opening, entries, last := l.JournalAfter(taken)
		if taken = last; !s.Take(consumer, opening, entries) {
			b.Fatal("the shipper has no room")
		}
		if l.TrimJournal(taken); i%batchMax == batchMax-1 {
			s.Flush(b.Context())
		}
	}
	s.Flush(b.Context())
	b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// seesAll is an observer that sees every object.
type seesAll struct{}

func (seesAll) Visibility(*ledger.Reservation) ledger.Visibility {
	return ledger.Visibility{Version: 1}
}

func (seesAll) ChangesSince(ledger.Basis) ([]ledger.ObjectChange, bool) { return nil, true }

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
