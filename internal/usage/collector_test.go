package usage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/config"
)

func project(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "g", Kind: "Project", Name: name}
}

// bucket shows how many vCPUs of 1000 millicores a project uses.
func bucket(name string, used, limit int64) quotav1alpha1.AllowanceBucket {
	return quotav1alpha1.AllowanceBucket{
		Spec:   quotav1alpha1.AllowanceBucketSpec{ConsumerRef: project(name), ResourceType: "vcpus"},
		Status: quotav1alpha1.AllowanceBucketStatus{Allocated: used, Limit: limit},
	}
}

// collector has three projects. One uses more than its limit, and one its whole limit of nothing.
func collector() *Collector {
	registrations := catalog.New()
	r := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "vcpus"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "vcpus", DisplayUnit: "vCPU", UnitConversionFactor: 1000,
	}}
	apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	registrations.SetRegistration(r)
	part := bucket("web", 1000, 1000)
	part.Spec.Dimensions = map[string]string{"region": "eu"}
	grant := quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{quotav1alpha1.AnnotationAlertThreshold: "70"}},
		Spec:       quotav1alpha1.ResourceGrantSpec{ConsumerRef: project("over"), Allowances: []quotav1alpha1.Allowance{{ResourceType: "vcpus"}}},
	}
	apimeta.SetStatusCondition(&grant.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	return &Collector{
		Source: &source{
			buckets: []quotav1alpha1.AllowanceBucket{
				bucket("idle", 0, 0), bucket("web", 3000, 4000), part, bucket("over", 6000, 4000), bucket("over", 6000, 4000), bucket("none", 500, 0),
			},
			grants: []quotav1alpha1.ResourceGrant{grant}, registrations: registrations,
		},
		Leadership: leader(true), Waiting: two{},
		Registrations: registrations, ConsumersMax: 3, Log: logr.Discard(),
	}
}

// histogram is how many consumers use at most 50, 70, 80, 90, 95 and 100 % of their limit, and how many there are.
func histogram(sum string, counts ...int) string {
	const name = "quota_resource_type_utilization_ratio"
	text := fmt.Sprintf("# HELP %s Consumers by their usage, as a part of their limit.\n# TYPE %s histogram\n", name, name)
	for i, le := range []string{"0.5", "0.7", "0.8", "0.9", "0.95", "1", "+Inf"} {
		text += fmt.Sprintf("%s_bucket{resource_type=\"vcpus\",le=%q} %d\n", name, le, counts[i])
	}
	return text + fmt.Sprintf("%s_sum{resource_type=\"vcpus\"} %s\n%s_count{resource_type=\"vcpus\"} %d\n", name, sum, name, counts[len(counts)-1])
}

func TestCollect(t *testing.T) {
	of := func(name string) string {
		return fmt.Sprintf(`consumer_group="g",consumer_kind="Project",consumer_name=%q,consumer_namespace="",resource_type="vcpus"`, name)
	}
	family := func(name, help, lines string) string {
		return fmt.Sprintf("# HELP %s %s\n# TYPE %s gauge\n%s", name, help, name, lines)
	}
	line := func(name, consumer, value string) string {
		return fmt.Sprintf("%s{%s} %s\n", name, of(consumer), value)
	}
	want := family("quota_used", "Usage of a resource type by a consumer, in base units.",
		line("quota_used", "none", "500")+line("quota_used", "over", "6000")+line("quota_used", "web", "3000")) +
		family("quota_utilization_ratio", "Usage of a consumer, as a part of its limit; +Inf for usage with a limit of 0.",
			line("quota_utilization_ratio", "none", "+Inf")+line("quota_utilization_ratio", "over", "1.5")+line("quota_utilization_ratio", "web", "0.75")) +
		family("quota_over_limit", "Usage of a consumer beyond its limit, in base units.",
			line("quota_over_limit", "none", "500")+line("quota_over_limit", "over", "2000")+line("quota_over_limit", "web", "0")) +
		family("quota_alert_threshold_ratio", "Part of its limit from which a consumer is near it.",
			"quota_alert_threshold_ratio{"+of("none")+"} 0.8\n"+"quota_alert_threshold_ratio{"+of("over")+"} 0.7\n"+"quota_alert_threshold_ratio{"+of("web")+"} 0.8\n") +
		family("quota_waiting_claims", "Claims of a consumer that wait because of this resource type.",
			line("quota_waiting_claims", "none", "0")+line("quota_waiting_claims", "over", "2")+line("quota_waiting_claims", "web", "0")) +
		family("quota_limit_in_display_units", "As quota_limit, in the unit of the label.",
			fmt.Sprintf("quota_limit_in_display_units{%s,unit=\"vCPU\"} 0\n", of("none"))+
				fmt.Sprintf("quota_limit_in_display_units{%s,unit=\"vCPU\"} 4\n", of("over"))+
				fmt.Sprintf("quota_limit_in_display_units{%s,unit=\"vCPU\"} 4\n", of("web"))) +
		family("quota_omitted_consumers", "Consumers of a resource type without series of their own, because there are too many.",
			"quota_omitted_consumers{resource_type=\"vcpus\"} 1\n") +
		family("quota_resource_type_used", "Usage of a resource type by all consumers together, in base units.",
			"quota_resource_type_used{resource_type=\"vcpus\"} 9500\n") +
		histogram("2.25", 1, 1, 2, 2, 2, 2, 4)
	names := []string{
		"quota_used", "quota_utilization_ratio", "quota_over_limit", "quota_alert_threshold_ratio", "quota_waiting_claims", "quota_limit_in_display_units", "quota_omitted_consumers",
		"quota_resource_type_used", "quota_resource_type_utilization_ratio",
	}
	if err := testutil.CollectAndCompare(collector(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(collector())
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Without series of consumers there are those of resource types. Without buckets there are none, but no error either,
// as that would fail other collectors.
func TestCollectLess(t *testing.T) {
	aggregate := collector()
	aggregate.ConsumersMax = 0
	if n := testutil.CollectAndCount(aggregate, "quota_used", "quota_waiting_claims"); n != 0 {
		t.Errorf("consumers have %d series", n)
	}
	if n := testutil.CollectAndCount(aggregate, "quota_resource_type_limit", "quota_resource_type_waiting_claims"); n != 2 {
		t.Errorf("the resource type has %d series, want 2", n)
	}
	full := collector()
	full.Source = &source{buckets: []quotav1alpha1.AllowanceBucket{bucket("full", 95, 100)}, registrations: full.Registrations}
	want := histogram("0.95", 0, 0, 0, 0, 1, 1, 1)
	if err := testutil.CollectAndCompare(full, strings.NewReader(want), "quota_resource_type_utilization_ratio"); err != nil {
		t.Error(err)
	}
	for name, absent := range map[string]*Collector{"another process tells of them": collector(), "there is no cache yet": collector()} {
		if name == "there is no cache yet" {
			absent.Source = &source{err: errors.New("not started")}
		} else {
			absent.Leadership = leader(false)
		}
		if n := testutil.CollectAndCount(absent); n != 0 {
			t.Errorf("%s: %d series", name, n)
		}
	}
}

// BenchmarkCollect is one scrape of 10,000 consumers of four resource types each, with grants with thresholds. Of these
// pairs, 10,000 have series.
func BenchmarkCollect(b *testing.B) {
	c, buckets, grants := many()
	c.Source = &source{buckets: buckets, grants: grants, registrations: c.Registrations}
	for b.Loop() {
		metrics := make(chan prometheus.Metric, 1000)
		go func() {
			c.Collect(metrics)
			close(metrics)
		}()
		for range metrics {
		}
	}
}

// BenchmarkNotify is one look of the notifier at as many consumers, none beyond a threshold.
func BenchmarkNotify(b *testing.B) {
	c, buckets, grants := many()
	n := &Notifier{
		Source:        &source{buckets: buckets, grants: grants, registrations: c.Registrations},
		Registrations: c.Registrations, Log: logr.Discard(),
	}
	for b.Loop() {
		n.notifyChanges(b.Context())
	}
}

func many() (*Collector, []quotav1alpha1.AllowanceBucket, []quotav1alpha1.ResourceGrant) {
	c := collector()
	c.ConsumersMax = 10_000
	var buckets []quotav1alpha1.AllowanceBucket
	var grants []quotav1alpha1.ResourceGrant
	for i := range 10_000 {
		grant := quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{quotav1alpha1.AnnotationAlertThreshold: "70"}},
			Spec:       quotav1alpha1.ResourceGrantSpec{ConsumerRef: project(fmt.Sprint(i))},
		}
		apimeta.SetStatusCondition(&grant.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
		for _, resourceType := range []string{"vcpus", "memory", "gpus", "instances"} {
			one := bucket(fmt.Sprint(i), int64(i%100), 100)
			one.Spec.ResourceType = resourceType
			buckets = append(buckets, one)
			grant.Spec.Allowances = append(grant.Spec.Allowances, quotav1alpha1.Allowance{ResourceType: resourceType})
		}
		grants = append(grants, grant)
	}
	return c, buckets, grants
}

// source has the usage of all consumers.
type source struct {
	buckets       []quotav1alpha1.AllowanceBucket
	grants        []quotav1alpha1.ResourceGrant
	registrations *catalog.Catalog
	err           error
}

func (s *source) Buckets(context.Context) ([]quotav1alpha1.AllowanceBucket, error) {
	return s.buckets, s.err
}

func (s *source) Thresholds(context.Context) (*Thresholds, error) {
	return NewThresholds(nil, s.grants, s.registrations, config.Metrics{AlertThresholdPercent: 80}), nil
}

// leader is whether this replica leads.
type leader bool

func (l leader) Leads() bool { return bool(l) }

// two claims wait for one vCPU each.
type two struct{}

func (two) Waiting() map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest {
	one := []quotav1alpha1.ResourceRequest{{ResourceType: "vcpus", Amount: 1}}
	return map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest{project("over"): {one, one}}
}
