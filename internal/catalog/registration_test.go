package catalog

import (
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// registrationAt is a registration of type t, created at a second.
func registrationAt(name string, second int64, status metav1.ConditionStatus) *quotav1alpha1.ResourceRegistration {
	r := &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)},
		Spec:       quotav1alpha1.ResourceRegistrationSpec{ResourceType: "t"},
	}
	apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: status})
	return r
}

func TestRegistrationOfAType(t *testing.T) {
	active, inactive := metav1.ConditionTrue, metav1.ConditionFalse
	deleting := registrationAt("a", 1, active)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)}
	tests := map[string]struct {
		reason string
		events []*quotav1alpha1.ResourceRegistration
		want   string
	}{
		"active":   {"it stands for its type", []*quotav1alpha1.ResourceRegistration{registrationAt("a", 1, active)}, "a"},
		"inactive": {"it does not", []*quotav1alpha1.ResourceRegistration{registrationAt("a", 1, inactive)}, ""},
		"deleting": {"nor does one that goes", []*quotav1alpha1.ResourceRegistration{registrationAt("a", 1, active), deleting}, ""},
		"duplicate reported": {"the other one stays in effect",
			[]*quotav1alpha1.ResourceRegistration{registrationAt("a", 1, active), registrationAt("b", 2, active), registrationAt("b", 2, inactive)}, "a"},
		"duplicate seen first": {"the older one has the type, in whatever order they are seen",
			[]*quotav1alpha1.ResourceRegistration{registrationAt("a", 2, active), registrationAt("b", 1, active)}, "b"},
		"same second": {"then names decide",
			[]*quotav1alpha1.ResourceRegistration{registrationAt("b", 1, active), registrationAt("a", 1, active)}, "a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := New()
			for _, event := range tt.events {
				c.SetRegistration(event)
			}
			got := ""
			if r := c.Registration("t"); r != nil {
				got = r.Name
			}
			if got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}
