package quotaincrease

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// After a takeover a ResourceQuota gets its composition, and only another amount causes an event.
func TestEventsOfTakeover(t *testing.T) {
	tests := map[string]struct {
		reason      string
		hard        string
		annotations map[string]string
		limit       string
		want        []string
	}{
		"Same":      {"nothing has changed for anybody", "count/secrets=15", nil, "", nil},
		"Different": {"it has more now", "count/secrets=10", nil, "", []string{"QuotaChanged: count/secrets: 15 = base 10 + more 5"}},
		"Held":      {"a cap holds something back, which nobody knows yet", "count/secrets=10", nil, "10", []string{"QuotaHeldBack: count/secrets: 10 = base 10 (held back by a cap: more 5)"}},
		"Composed": {"the same amount is made of something else", "count/secrets=15", map[string]string{openmcpv1alpha1.AnnotationComposition: "count/secrets: 15 = base 15"}, "",
			[]string{"QuotaChanged: count/secrets: 15 = base 10 + more 5"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			quota := &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: team, Annotations: tt.annotations, Labels: map[string]string{
					openmcpv1alpha1.LabelManagedBy: "platform", openmcpv1alpha1.LabelDefinition: "base",
				}},
				Spec: corev1.ResourceQuotaSpec{Hard: amounts(tt.hard)},
			}
			w := newWorld(t, platform(openmcpv1alpha1.ModeCumulative, "count/secrets=10"), quotaIncrease("more", "count/secrets=5"), quota)
			if tt.limit != "" {
				w.reject = exceeds(tt.limit)
			}
			w.settled()
			if diff := cmp.Diff(tt.want, w.events); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", tt.reason, diff)
			}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || quota.Annotations[openmcpv1alpha1.AnnotationComposition] == tt.annotations[openmcpv1alpha1.AnnotationComposition] {
				t.Errorf("%s: the composition is not told: %+v, %v", tt.reason, quota, err)
			}
			w.events = nil
			if w.settled(); len(w.events) > 0 || tt.limit == "" && len(w.writes) > 0 {
				t.Errorf("%s: once more it says %q and writes %q", tt.reason, w.events, w.writes)
			}
		})
	}
}
