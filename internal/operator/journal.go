package operator

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/journalconfig"
	"github.com/bursar/bursar/internal/journal/shipper"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// The delays are how long an entry waits for others before they are stored together. A bucket gets an object each time.
const (
	journalDelay   = 250 * time.Millisecond
	journalDelayS3 = 2 * time.Second
)

// newJournal makes the ledgers record changes for the configured sink. recorded is nil if there is none, and history if
// it cannot be read.
func (o *Operator) newJournal(ctx context.Context, ledgers *ledgerstore.Store) (recorded *shipper.Shipper, history journal.Source, err error) {
	log, c := o.options.Log.WithName("journal"), o.options.Journal
	sink, err := journalconfig.NewSink(logr.NewContext(ctx, log), c, o.replica())
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	if history = o.options.History; history == nil {
		if history, err = journalconfig.NewSource(c); err != nil {
			return nil, nil, fmt.Errorf("open the journal to read it: %w", err)
		}
	}
	if sink == nil {
		return nil, history, nil
	}
	delay := journalDelay
	if c.Sink == config.JournalS3 {
		delay = journalDelayS3
	}
	recorded = shipper.New(ledgers, sink, delay, log)
	ledgers.Journal = recorded
	return recorded, history, nil
}

// journalInfo has the metric with the destination of the journal.
type journalInfo struct{ location string }

// Collectors returns the metric, for registration.
func (i journalInfo) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "bursar_journal_info",
		Help:        "1, with the location of the journal.",
		ConstLabels: prometheus.Labels{"location": i.location},
	}, func() float64 { return 1 })}
}

// replica returns the name of this process among the writers of the journal.
func (o *Operator) replica() string {
	if o.options.Replica != "" {
		return o.options.Replica
	}
	name, err := os.Hostname()
	if err != nil {
		return "replica"
	}
	return name
}

// closeJournal ends the sink. Missing entries follow at the next start.
func (o *Operator) closeJournal(q *quota) {
	if q.journal == nil {
		return
	}
	if err := q.journal.Close(); err != nil {
		o.options.Log.Error(err, "cannot close the journal")
	}
}
