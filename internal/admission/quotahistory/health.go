package quotahistory

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/journal"
)

const (
	// probeInterval is the time between two probes of the journal, and probeTimeout bounds each. Histories may be rare, so
	// Bursar probes the journal itself.
	probeInterval = time.Minute
	probeTimeout  = 30 * time.Second
	// probeAhead is how far in the future the probes begin: beyond every entry, so that a probe lists and reads none.
	probeAhead = 24 * time.Hour
)

// health keeps why the journal cannot be read. The zero value is ready to use, by several goroutines at once.
type health struct {
	mu sync.Mutex
	// listing is the error of the last probe, and reading that of the last history.
	listing, reading error
}

// noteRead keeps the outcome of a history. Other errors than those of the source are no fault of the journal.
func (h *health) noteRead(err error) {
	if of := (sourceError{}); err != nil && !errors.As(err, &of) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reading = err
}

// noteListed keeps the outcome of a probe.
func (h *health) noteListed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listing = err
}

// failure returns why the journal cannot be read, or nil.
func (h *health) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listing != nil {
		return h.listing
	}
	return h.reading
}

// Run probes the journal at the start and every minute, until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	if r.Journal == nil {
		return nil
	}
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		r.probe(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// probe lists the journal, and reads no entry.
func (r *Reader) probe(ctx context.Context) {
	probing, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var failure error
	for _, err := range r.Journal.Entries(probing, journal.Query{Since: time.Now().Add(probeAhead), WorkersMax: workersMax}) {
		failure = err
		break
	}
	if ctx.Err() == nil { // the end of this process is no fault of the journal
		r.health.noteListed(failure)
	}
}

// The metrics for readers of the journal. There is one error at most, and only while it lasts, so errors that differ do
// no harm.
var (
	isReadFailing = prometheus.NewDesc("bursar_journal_read_failing", "1, with the error, while the journal cannot be read.", []string{"error"}, nil)
	linesDamaged  = prometheus.NewDesc("bursar_journal_damaged_lines", "Damaged lines of the journal that histories have skipped since the start, without those repaired since.", nil, nil)
)

// Collectors returns the metrics, for registration.
func (r *Reader) Collectors() []prometheus.Collector { return []prometheus.Collector{collector{r}} }

type collector struct{ *Reader }

// Describe implements [prometheus.Collector].
func (collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- isReadFailing
	descriptions <- linesDamaged
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	if c.Journal == nil {
		return
	}
	if err := c.health.failure(); err != nil {
		metrics <- prometheus.MustNewConstMetric(isReadFailing, prometheus.GaugeValue, 1, strings.ToValidUTF8(err.Error(), "?"))
	}
	metrics <- prometheus.MustNewConstMetric(linesDamaged, prometheus.GaugeValue, float64(c.damage.Count()))
}
