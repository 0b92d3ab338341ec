package events_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bursar/bursar/internal/kube/events"
)

// places keeps the notes of events by namespace.
type places map[string]string

func (p places) Eventf(regarding, _ runtime.Object, _, _, _, note string, args ...any) {
	p[regarding.(*corev1.ObjectReference).Namespace] = fmt.Sprintf(note, args...)
}

// Nothing about tenants is in the namespace default. There kubectl describe looks for the events of a cluster-scoped
// object, and finds where they are.
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
			got := places{}
			var related runtime.Object
			if tc.related != nil {
				related = tc.related
			}
			events.NewRecorder(got).WithNamespaces(scheme.Scheme, "system").Eventf(tc.regarding, related, "Warning", "Reason", "Act", "web uses %d", 7)

			want := places{tc.want: "web uses 7"}
			if tc.regarding.Namespace == "" {
				want[""] = "the events with the details are in other namespaces: kubectl events -A --for claimcreationpolicy/apps"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
