package registration

import (
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/progress"
)

func registrationOf(name, resourceType string, second int64) quotav1alpha1.ResourceRegistration {
	return quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 2, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))},
		Spec:       quotav1alpha1.ResourceRegistrationSpec{ResourceType: resourceType},
	}
}

func TestOlderOf(t *testing.T) {
	tests := map[string]struct {
		reason string
		others []quotav1alpha1.ResourceRegistration
		want   string
	}{
		"alone":              {reason: "a registration does not stand in its own way"},
		"other type":         {reason: "other types are no concern", others: []quotav1alpha1.ResourceRegistration{registrationOf("a", "castles", 1)}},
		"older":              {reason: "who came first has the type", others: []quotav1alpha1.ResourceRegistration{registrationOf("z", "projects", 4)}, want: "z"},
		"younger":            {reason: "who comes later does not take it away", others: []quotav1alpha1.ResourceRegistration{registrationOf("a", "projects", 6)}},
		"same second before": {reason: "timestamps are whole seconds, so names decide", others: []quotav1alpha1.ResourceRegistration{registrationOf("a", "projects", 5)}, want: "a"},
		"same second after":  {reason: "and they decide for one of the two only", others: []quotav1alpha1.ResourceRegistration{registrationOf("z", "projects", 5)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			self := registrationOf("m", "projects", 5)
			got := ""
			if older := olderOf(&self, append(tt.others, self)); older != nil {
				got = older.Name
			}
			if got != tt.want {
				t.Errorf("got %q, want %q: %s", got, tt.want, tt.reason)
			}
		})
	}
}

func TestReport(t *testing.T) {
	registration := registrationOf("m", "projects", 5)
	for _, step := range []struct {
		state           progress.State
		problem, reason string
		status          metav1.ConditionStatus
	}{
		{progress.Reached, "", quotav1alpha1.ReasonRegistrationActive, metav1.ConditionTrue},
		{progress.Waiting, "consumer kind Tenant is not served", quotav1alpha1.ReasonValidationFailed, metav1.ConditionFalse},
		{progress.Reached, "", quotav1alpha1.ReasonRegistrationActive, metav1.ConditionTrue},
	} {
		report(&registration, step.state, step.problem)
		c := apimeta.FindStatusCondition(registration.Status.Conditions, quotav1alpha1.ConditionActive)
		if c == nil || c.Status != step.status || c.Reason != step.reason {
			t.Fatalf("with the error %q the condition is %+v, want %s with reason %s", step.problem, c, step.status, step.reason)
		}
		if step.problem != "" && c.Message != step.problem {
			t.Errorf("the message is %q, want %q", c.Message, step.problem)
		}
		if c.ObservedGeneration != 2 || registration.Status.ObservedGeneration != 2 {
			t.Error("the status does not say which generation it is about")
		}
	}
}

// TestReportAfterPending has a registration with a problem at its first reconcile.
func TestReportAfterPending(t *testing.T) {
	registration := registrationOf("m", "projects", 5)
	registration.Status.Conditions = []metav1.Condition{{
		Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonRegistrationPending, LastTransitionTime: metav1.Unix(0, 0),
	}}
	report(&registration, progress.Waiting, "consumer kind Tenant is not served")
	c := registration.Status.Conditions[0]
	if c.Reason != quotav1alpha1.ReasonValidationFailed || c.LastTransitionTime.Unix() == 0 {
		t.Errorf("the condition is %+v, want it to be from now, not from when the schema's default says", c)
	}
}
