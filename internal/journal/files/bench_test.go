package files

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/bursar/bursar/internal/journal"
)

// benchmarkEntries is how many entries a benchmark reads.
const benchmarkEntries = 1_000_000

// BenchmarkRead reads a million entries of a thousand consumers: from one replica, from two in turns, and one
// consumer of them.
func BenchmarkRead(b *testing.B) {
	for _, replicas := range []int{1, 2} {
		dir, from := b.TempDir(), time.Now().Add(-time.Hour)
		writeJournal(b, dir, replicas, from)
		queries := map[string]journal.Query{"all": {}, "one consumer": {Consumer: new(consumer("project-7"))}}
		for name, query := range queries {
			b.Run(fmt.Sprintf("%d replicas/%s", replicas, name), func(b *testing.B) {
				n := 0
				for b.Loop() {
					n = 0
					for _, err := range Dir(dir).Entries(b.Context(), query) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
				b.ReportMetric(float64(n), "entries")
			})
		}
	}
}

// writeJournal writes the entries in batches, with the replicas in turns.
func writeJournal(b *testing.B, dir string, replicas int, from time.Time) {
	b.Helper()
	var sinks []*Sink
	for i := range replicas {
		s, err := NewSink(Options{
			Dir: dir, Replica: fmt.Sprintf("bursar-%d", i), FileBytesMax: 64 << 20, Retention: RetentionMin, BytesMax: 1 << 30, Log: logr.Discard(),
		})
		if err != nil {
			b.Fatal(err)
		}
		sinks = append(sinks, s)
	}
	const consumers, size = 1000, 10_000
	batch := make([]journal.Entry, 0, size)
	for n := range benchmarkEntries {
		batch = append(batch, entry(fmt.Sprintf("project-%d", n%consumers), int64(n/consumers+1), from.Add(time.Duration(n)*time.Millisecond)))
		if len(batch) == size {
			if err := sinks[n/size%replicas].Append(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	for _, s := range sinks {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
