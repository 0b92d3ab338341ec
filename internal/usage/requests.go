package usage

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest"
)

// Requests exports the open QuotaRequests to Prometheus. It reads at each scrape.
type Requests struct {
	// Cache has the requests.
	Cache client.Reader
	// Leadership restricts the metrics to the leader.
	Leadership Leadership
	Log        logr.Logger
}

var (
	requestsOpen  = prometheus.NewDesc("quota_requests_open", "Undecided QuotaRequests.", []string{"consumer_kind"}, nil)
	requestOldest = prometheus.NewDesc("quota_request_oldest_timestamp_seconds", "When the oldest open QuotaRequest was created, as a Unix time.",
		[]string{"consumer_kind"}, nil)
)

// Collectors returns itself, for registration.
func (c *Requests) Collectors() []prometheus.Collector { return []prometheus.Collector{c} }

// Describe implements [prometheus.Collector].
func (c *Requests) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- requestsOpen
	descriptions <- requestOldest
}

// Collect implements [prometheus.Collector].
func (c *Requests) Collect(metrics chan<- prometheus.Metric) {
	if !c.Leadership.Leads() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var list quotav1alpha1.QuotaRequestList
	if err := c.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		// An invalid metric would fail the scrape of all collectors.
		c.Log.V(1).Info("cannot count the open requests", "err", err.Error())
		return
	}
	type waiting struct {
		count  int
		oldest int64
	}
	kinds := map[string]waiting{}
	for i := range list.Items {
		request := &list.Items[i]
		if quotarequest.IsFinal(request) || request.Status.Approved != nil || request.DeletionTimestamp != nil {
			continue
		}
		of, created := kinds[request.Spec.ConsumerRef.Kind], request.CreationTimestamp.Unix()
		if of.count == 0 || created < of.oldest {
			of.oldest = created
		}
		of.count++
		kinds[request.Spec.ConsumerRef.Kind] = of
	}
	for kind, of := range kinds {
		metrics <- gauge(requestsOpen, float64(of.count), kind)
		metrics <- gauge(requestOldest, float64(of.oldest), kind)
	}
}
