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
	// lookEvery is the time between two looks at the place of the journal, and lookTimeout bounds each. Nobody may ask for
	// a history for days.
	lookEvery   = time.Minute
	lookTimeout = 30 * time.Second
	// lookAhead is how far in the future the looks begin: beyond every entry, so that a look lists and reads none.
	lookAhead = 24 * time.Hour
)

// health keeps why the journal cannot be read. The zero value is ready to use, by several goroutines at once.
type health struct {
	mu sync.Mutex
	// listing is the error of the last look, and reading that of the last history.
	listing, reading error
}

// read keeps the outcome of a history. Other errors than those of the source are no fault of the journal.
func (h *health) read(err error) {
	if of := (sourceError{}); err != nil && !errors.As(err, &of) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reading = err
}

func (h *health) listed(err error) {
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

// Run looks at the place of the journal at the start and every minute, until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	if r.Journal == nil {
		return nil
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		r.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look lists the journal, and reads no entry.
func (r *Reader) look(ctx context.Context) {
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var failure error
	for _, err := range r.Journal.Entries(looking, journal.Query{Since: time.Now().Add(lookAhead), WorkersMax: workersMax}) {
		failure = err
		break
	}
	if ctx.Err() == nil { // the end of this process is no fault of the journal
		r.health.listed(failure)
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
