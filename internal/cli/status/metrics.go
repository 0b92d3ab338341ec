package status

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics are those of one operator.
type metrics struct {
	// sums has the sum of the series of each counter and gauge of Bursar, by name.
	sums map[string]float64
	// journalAt is where the journal goes, or "" if none is kept.
	journalAt string
	// writeError and readError are why the journal cannot be written or read, or "".
	writeError, readError string
}

// readMetrics reads the metrics of an operator. A standalone API server has them itself, and otherwise they come from
// the Service of the chart.
func (r *reader) readMetrics(ctx context.Context) (*metrics, error) {
	var content []byte
	var err error
	if r.isStandalone {
		content, err = r.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	} else {
		content, err = r.client.CoreV1().Services(r.systemNamespace).ProxyGet("http", "bursar-metrics", "metrics", "/metrics", nil).DoRaw(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the operator: %w", err)
	}
	return parseMetrics(content)
}

// parseMetrics reads metrics in the text format of Prometheus.
func parseMetrics(content []byte) (*metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("parse the metrics of the operator: %w", err)
	}
	m := &metrics{sums: map[string]float64{}}
	for name, family := range families {
		if !strings.HasPrefix(name, "bursar_") {
			continue
		}
		for _, series := range family.GetMetric() {
			m.sums[name] += series.GetCounter().GetValue() + series.GetGauge().GetValue() + series.GetUntyped().GetValue()
			for _, label := range series.GetLabel() {
				switch name + " " + label.GetName() {
				case "bursar_journal_info location":
					m.journalAt = label.GetValue()
				case "bursar_journal_failing error":
					m.writeError = label.GetValue()
				case "bursar_journal_read_failing error":
					m.readError = label.GetValue()
				}
			}
		}
	}
	return m, nil
}
