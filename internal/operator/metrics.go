package operator

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/admission/server"
)

// collectors are those of a component.
type collectors interface{ Collectors() []prometheus.Collector }

// serveMetrics registers the metrics of all components, if there is a registry, until the returned function is called.
func serveMetrics(registry prometheus.Registerer, sources []collectors) (stop func(), err error) {
	if registry == nil {
		return func() {}, nil
	}
	var registered []prometheus.Collector
	stop = func() {
		for _, collector := range registered {
			registry.Unregister(collector)
		}
	}
	for _, source := range sources {
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

// health reports whether this replica enforces quota, and until when it can.
type health struct {
	*Operator
	certificates server.Certificates
}

// Collectors returns the metrics, for registration.
func (h health) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bursar_ready",
			Help: "1 while this replica enforces quota, as /readyz reports; 0 while it does not.",
		}, func() float64 {
			if h.Ready() != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bursar_webhook_certificate_expiry_timestamp_seconds",
			Help: "End of the certificate of this replica's webhooks, in seconds since 1970; 0 while there is none.",
		}, func() float64 {
			certificate, err := h.certificates.GetCertificate(nil)
			if err != nil || certificate.Leaf == nil {
				return 0
			}
			return float64(certificate.Leaf.NotAfter.Unix())
		}),
	}
}
