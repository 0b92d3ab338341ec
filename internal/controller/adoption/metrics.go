package adoption

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// listTimeout bounds the list of policies for one scrape. It reads from a cache.
const listTimeout = 5 * time.Second

var (
	ofPolicy         = []string{"policy"}
	isEffective      = prometheus.NewDesc("bursar_policy_ready", "1 for an enabled ClaimCreationPolicy that is Ready, 0 for one that is not.", ofPolicy, nil)
	isApplicable     = prometheus.NewDesc("bursar_policy_applicable", "1 for a ClaimCreationPolicy that is Ready and can be applied to the objects of requests, 0 for one that cannot.", ofPolicy, nil)
	isComplete       = prometheus.NewDesc("bursar_adoption_complete", "1 once a policy has been evaluated for all existing objects, 0 before.", ofPolicy, nil)
	objectsFound     = prometheus.NewDesc("bursar_adoption_objects", "Objects of the kind of a policy.", ofPolicy, nil)
	objectsProcessed = prometheus.NewDesc("bursar_adoption_processed_objects", "Objects that a policy has been evaluated for.", ofPolicy, nil)
	objectsAdopted   = prometheus.NewDesc("bursar_adoption_adopted_objects", "Objects that count by a policy.", ofPolicy, nil)
	objectsFailed    = prometheus.NewDesc("bursar_adoption_failed_objects", "Objects that a policy fails for.", ofPolicy, nil)
)

// Collectors returns the metrics of policies and their adoption. Only a leader registers them.
func (c *Controller) Collectors() []prometheus.Collector { return []prometheus.Collector{collector{c}} }

// collector reads the metrics from the status of policies at each scrape.
type collector struct{ *Controller }

// Describe implements [prometheus.Collector].
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{isEffective, isApplicable, isComplete, objectsFound, objectsProcessed, objectsAdopted, objectsFailed} {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var policies quotav1alpha1.ClaimCreationPolicyList
	if err := c.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		// An invalid metric would fail the scrape of all collectors.
		c.Log.V(1).Info("cannot read the policies for metrics", "err", err.Error())
		return
	}
	for i := range policies.Items {
		policy := &policies.Items[i]
		emit := func(d *prometheus.Desc, value float64) {
			metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, policy.Name)
		}
		if policy.IsEnabled() {
			emit(isEffective, number(apimeta.IsStatusConditionTrue(policy.Status.Conditions, quotav1alpha1.ConditionReady)))
		}
		if applicable := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionApplicable); applicable != nil {
			emit(isApplicable, number(applicable.Status == metav1.ConditionTrue))
		}
		if a := policy.Status.Adoption; a != nil {
			emit(isComplete, number(a.State == quotav1alpha1.AdoptionComplete))
			emit(objectsFound, float64(a.Total))
			emit(objectsProcessed, float64(a.Processed))
			emit(objectsAdopted, float64(a.Adopted))
			emit(objectsFailed, float64(a.Failed))
		}
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
