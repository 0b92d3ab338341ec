package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A policy that denies everything by mistake shows it by a condition, a count, an event and a metric. After a
// correction it looks well again.
func TestPolicyThatCannotBeAppliedSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 2)
	policy := w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) { consumerName(p, "{{.trigger.data.payer}}") })
	w.waitCondition(policy, quotav1alpha1.ConditionApplicable, metav1.ConditionTrue)
	const denied = 3
	for range denied {
		if err := admin.Create(w.ctx, w.configMap("a")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), ".trigger.data.payer is not set") {
			t.Fatalf("got %v, want a denial with the reason", err)
		}
	}
	if err := admin.Create(w.ctx, w.configMap("a"), client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want a dry run to be denied, too", err)
	}
	eventually(w, func() error {
		condition := w.waitCondition(policy, quotav1alpha1.ConditionApplicable, metav1.ConditionFalse)
		if status := policy.Status.Evaluation; status == nil || status.Denied != denied || status.Failed != denied || status.LastSuccessTime != nil {
			return fmt.Errorf("the evaluation is %+v, want %d denials", status, denied)
		}
		for _, part := range []string{"ConfigMap " + w.name + "/a", ".trigger.data.payer is not set", "3 of 3 requests"} {
			if condition.Reason != quotav1alpha1.ReasonEvaluationFailed || !strings.Contains(condition.Message, part) {
				return fmt.Errorf("the condition is %+v, want it to say %q", condition, part)
			}
		}
		return nil
	})
	eventually(w, func() error {
		var events corev1.EventList
		if err := admin.List(w.ctx, &events, client.MatchingFields{"involvedObject.name": policy.Name}); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == quotav1alpha1.EventEvaluationFailed && strings.Contains(e.Message, ".trigger.data.payer is not set") {
				return nil
			}
		}
		return fmt.Errorf("there is no event %s on the policy", quotav1alpha1.EventEvaluationFailed)
	})
	if got := counted(t, "bursar_admission_decisions_total", map[string]string{"policy": w.name, "outcome": "failed"}); got != denied {
		t.Errorf("%v decisions failed, want %d", got, denied)
	}
	w.update(policy, func() { consumerName(policy, w.consumer().Name) })
	w.waitCondition(policy, quotav1alpha1.ConditionApplicable, metav1.ConditionTrue)
	w.mustCreate(w.configMap("a"))
}
