package operator

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// serveMetrics registers the metrics of all parts, until the returned function is called.
func (p *parts) serveMetrics(registry prometheus.Registerer) (stop func(), err error) {
	if registry == nil {
		return func() {}, nil
	}
	var registered []prometheus.Collector
	stop = func() {
		for _, collector := range registered {
			registry.Unregister(collector)
		}
	}
	for _, source := range []interface{ Collectors() []prometheus.Collector }{p.store, p.enforcer, p.auditor, p.grants, p.allocations, p.allocation, p.quotas} {
		for _, collector := range source.Collectors() {
			if err := registry.Register(collector); err != nil {
				stop()
				return nil, fmt.Errorf("register metrics: %w", err)
			}
			registered = append(registered, collector)
		}
	}
	return stop, nil
}
