package events_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bursar/bursar/internal/kube/events"
)

// places keeps the namespaces of events.
type places []string

func (p *places) Eventf(regarding, _ runtime.Object, _, _, _, _ string, _ ...any) {
	*p = append(*p, regarding.(*corev1.ObjectReference).Namespace)
}

// Nothing about tenants is in the namespace default.
func TestEventsAreWhereTheyConcern(t *testing.T) {
	policy := &corev1.ObjectReference{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ClaimCreationPolicy", Name: "apps"}
	for name, tc := range map[string]struct {
		reason             string
		regarding, related *corev1.ObjectReference
		want               string
	}{
		"object":         {"an event on a policy is beside its object", policy, &corev1.ObjectReference{Kind: "App", Namespace: "team", Name: "a"}, "team"},
		"cluster-scoped": {"the object has no namespace", policy, &corev1.ObjectReference{Kind: "Namespace", Name: "team"}, "system"},
		"nothing else":   {"there is no object", policy, nil, "system"},
		"namespaced":     {"it stays where it is", &corev1.ObjectReference{Kind: "App", Namespace: "team", Name: "a"}, policy, "team"},
	} {
		t.Run(name, func(t *testing.T) {
			var got places
			var related runtime.Object
			if tc.related != nil {
				related = tc.related
			}
			events.NewRecorder(&got).WithNamespaces(scheme.Scheme, "system").Eventf(tc.regarding, related, "Warning", "Reason", "Act", "note")
			if len(got) != 1 || got[0] != tc.want {
				t.Errorf("%s: got %v, want %s", tc.reason, got, tc.want)
			}
		})
	}
}
