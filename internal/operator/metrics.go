package operator

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/usage"
)

// serveMetrics registers the metrics of all parts, until the returned function is called.
func (p *parts) serveMetrics(o *Operator) (stop func(), err error) {
	registry := o.options.Metrics
	if registry == nil {
		return func() {}, nil
	}
	var registered []prometheus.Collector
	stop = func() {
		for _, collector := range registered {
			registry.Unregister(collector)
		}
	}
	for _, source := range []interface{ Collectors() []prometheus.Collector }{p.store, p.enforcer, p.auditor, p.grants, p.allocations, p.allocation, p.increases, p.quotas, p.adoption, p.usage(o), health{o, p.server.Certificates}} {
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

// health tells whether this replica enforces quota, and until when it can.
type health struct {
	*Operator
	certificates server.Certificates
}

// Collectors returns what tells of it, for registration.
func (h health) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bursar_ready",
			Help: "1 while this replica enforces quota, as /readyz tells; 0 while it does not.",
		}, func() float64 {
			if h.Ready() != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bursar_webhook_certificate_expiry_timestamp_seconds",
			Help: "When the certificate ends by which this replica serves the webhooks, in seconds since 1970; 0 while it has none.",
		}, func() float64 {
			certificate, err := h.certificates.GetCertificate(nil)
			if err != nil || certificate.Leaf == nil {
				return 0
			}
			return float64(certificate.Leaf.NotAfter.Unix())
		}),
	}
}

// usage tells how much of their quota consumers use, on the replica that leads.
func (p *parts) usage(o *Operator) *usage.Collector {
	return &usage.Collector{
		Buckets: func(ctx context.Context) ([]quotav1alpha1.AllowanceBucket, error) {
			if !p.leads() {
				return nil, nil
			}
			return p.buckets(ctx)
		},
		Thresholds: o.thresholds(p.models), Waiting: p.claim.Waiting, Registrations: p.catalog, ConsumersMax: *o.options.UsageMetrics.ConsumersMax, Log: p.log.WithName("usage"),
	}
}

// buckets are those of all consumers. They must not be changed.
func (m *models) buckets(ctx context.Context) ([]quotav1alpha1.AllowanceBucket, error) {
	var list quotav1alpha1.AllowanceBucketList
	err := m.manager.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// thresholds tells from which part of a limit on it is near.
func (o *Operator) thresholds(m *models) func(context.Context) (*usage.Thresholds, error) {
	return func(ctx context.Context) (*usage.Thresholds, error) {
		var list quotav1alpha1.ResourceGrantList
		if err := m.manager.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		return usage.NewThresholds(list.Items, m.catalog, o.options.UsageMetrics.AlertThresholdPercent), nil
	}
}
