package allocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// taking is an allocation of 10 Pods with some of them taken.
func taking(name, pods string, exceeded metav1.ConditionStatus) *quotav1alpha1.ResourceQuotaAllocation {
	a := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	a.Status.Allocated = corev1.ResourceQuotaStatus{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)},
	}
	a.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionExceeded, Status: exceeded, Message: pods + " of 10 pods"}}
	return a
}

// series counts the time series of the controller.
func series(c *Controller) int {
	found := make(chan prometheus.Metric, 100)
	for _, collector := range c.Collectors() {
		collector.Collect(found)
	}
	return len(found)
}

// An event reports a change of the state, and the first state only if it exceeds the cap.
func TestReportUsage(t *testing.T) {
	within, over := taking("acme", "5", metav1.ConditionFalse), taking("acme", "11", metav1.ConditionTrue)
	cut := taking("acme", "11", metav1.ConditionTrue)
	cut.Status.Conditions[0].ObservedGeneration, cut.Status.Conditions[0].Message = 2, "11 of 7 pods"
	unknown := within.DeepCopy()
	unknown.Status.Conditions = nil
	const exceeded, back = "Warning CapExceeded 11 of 10 pods", "Normal WithinCap 5 of 10 pods"
	for name, tt := range map[string]struct {
		reason string
		states []*quotav1alpha1.ResourceQuotaAllocation
		want   []string
	}{
		"within":          {"all is well", []*quotav1alpha1.ResourceQuotaAllocation{within, within}, nil},
		"over from start": {"who leads from now on does not know who was told", []*quotav1alpha1.ResourceQuotaAllocation{over, over}, []string{exceeded}},
		"over and back":   {"both are told, once", []*quotav1alpha1.ResourceQuotaAllocation{within, over, over, within, within, over}, []string{exceeded, back, exceeded}},
		"cut again":       {"the figures of the first event are those of another cap", []*quotav1alpha1.ResourceQuotaAllocation{over, over, cut, cut}, []string{exceeded, "Warning CapExceeded 11 of 7 pods"}},
		"not known":       {"nothing was found out, so that nothing is different", []*quotav1alpha1.ResourceQuotaAllocation{unknown, over, unknown, over, within}, []string{exceeded, back}},
	} {
		t.Run(name, func(t *testing.T) {
			c := started(t, func() error { return nil })
			recorder := events.NewFakeRecorder(len(tt.states))
			c.Events = recorder
			for _, state := range tt.states {
				c.reportUsage(state)
			}
			close(recorder.Events)
			var emitted []string
			for event := range recorder.Events {
				emitted = append(emitted, event)
			}
			if diff := cmp.Diff(tt.want, emitted); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}
