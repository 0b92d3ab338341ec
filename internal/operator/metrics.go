package operator

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
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
	for _, source := range []interface{ Collectors() []prometheus.Collector }{p.store, p.enforcer, p.auditor, p.grants, p.allocations, p.allocation, p.quotas, p.usage(o)} {
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

// consumersMax is how many pairs of a consumer and a resource type have series of their own unless told otherwise.
const consumersMax = 10_000

// usage tells how much of their quota consumers use, on the replica that leads.
func (p *parts) usage(o *Operator) *usage.Collector {
	most := consumersMax
	if o.options.ConsumersMax != nil {
		most = *o.options.ConsumersMax
	}
	return &usage.Collector{
		Buckets: func(ctx context.Context) ([]quotav1alpha1.AllowanceBucket, error) {
			if !p.leads() {
				return nil, nil
			}
			var list quotav1alpha1.AllowanceBucketList
			err := p.manager.GetClient().List(ctx, &list, client.UnsafeDisableDeepCopy)
			return list.Items, err
		},
		Waiting: p.claim.Waiting, Registrations: p.catalog, ConsumersMax: most, Log: p.log.WithName("usage"),
	}
}
