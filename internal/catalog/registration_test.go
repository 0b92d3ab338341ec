package catalog

import (
	"strings"
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

func TestNameInMessages(t *testing.T) {
	type of = quotav1alpha1.ResourceRegistrationSpec
	machines := []quotav1alpha1.ClaimingResource{{Kind: "Machine"}}
	several := append([]quotav1alpha1.ClaimingResource{{Kind: "Disk"}}, machines...)
	for name, tt := range map[string]struct {
		reason, display string
		spec            of
		named, subject  string
	}{
		"plain":      {"an amount has only its type", "", of{Type: "Allocation", ClaimingResources: machines}, "t", "t"},
		"kind":       {"people know the kind", "", of{Type: "Entity", ClaimingResources: machines}, "t", "Machine"},
		"kinds":      {"there is not one kind", "", of{Type: "Entity", ClaimingResources: several}, "t", "t"},
		"named":      {"the type tells equal names apart", "vCPUs", of{Type: "Allocation"}, "vCPUs (t)", "vCPUs (t)"},
		"named kind": {"the platform prefers its name to the kind", "Machines", of{Type: "Entity", ClaimingResources: machines}, "Machines (t)", "Machines (t)"},
		"same":       {"nobody reads the type twice", "t", of{Type: "Allocation"}, "t", "t"},
		"lines":      {"a message is one line", " v\tC\r\n PU\x00s\x1b[31m\u202e ", of{Type: "Allocation"}, "v C PUs[31m (t)", "v C PUs[31m (t)"},
		"signal":     {"bursar why would find another consumer", "quota of Team red, requested", of{Type: "Allocation"}, "t", "t"},
		"command":    {"bursar request would find another request", "x bursar request y=+9 --reason", of{Type: "Entity", ClaimingResources: machines}, "t", "Machine"},
		"too long":   {"a message is bounded", strings.Repeat("n", quotav1alpha1.DisplayNameMax+1), of{Type: "Allocation"}, "t", "t"},
	} {
		t.Run(name, func(t *testing.T) {
			object := registrationAt("a", 1, metav1.ConditionTrue)
			tt.spec.ResourceType = "t"
			object.Spec, object.Annotations = tt.spec, map[string]string{quotav1alpha1.AnnotationDisplayName: tt.display}
			c := New()
			c.SetRegistration(object)
			r := c.Registration("t")
			if got := r.Named(); got != tt.named {
				t.Errorf("%s: it is named %q, want %q", tt.reason, got, tt.named)
			}
			if got := r.Subject(); got != tt.subject {
				t.Errorf("%s: the subject is %q, want %q", tt.reason, got, tt.subject)
			}
		})
	}
}
