package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// An object with a failing policy stays within its claim. Nobody gets more because of a mistake in a policy, and
// changes without a cost stay possible.
func TestUpdatesKeepWithinTheClaimWhileThePolicyFails(t *testing.T) {
	t.Parallel()
	type policy = quotav1alpha1.ClaimCreationPolicy
	amount := func(p *policy, expression string) {
		request := &p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0]
		request.Amount, request.AmountExpression = 0, expression
	}
	for name, tt := range map[string]struct {
		reason  string
		slip    func(*policy)
		because string
		// mayShrink is set if the policy still yields the object's amount.
		mayShrink bool
	}{
		"consumer": {"whom to charge is not known, how much is", func(p *policy) { consumerName(p, "{{.trigger.data.payer}}") }, ".trigger.data.payer is not set", true},
		"condition": {"whether to charge is not known, how much is", func(p *policy) {
			p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: `trigger.data.tier == "gold"`})
		}, "no such key: tier", true},
		"amount": {"how much is not known", func(p *policy) { amount(p, "int(trigger.data.size)") }, "no such key: size", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.grant("base", 10)
			policy := w.policy(w.name, func(p *policy) {
				p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
				amount(p, "int(trigger.data.replicas)")
			})
			object := w.configMap("a")
			object.Data = map[string]string{"replicas": "3"}
			object.Finalizers = []string{"example.com/held"}
			w.mustCreate(object)
			w.waitClaims(object.UID)
			w.update(policy, func() { tt.slip(policy) })
			w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)

			set := func(change func(*corev1.ConfigMap)) error {
				before := object.DeepCopy()
				change(object)
				err := admin.Update(w.ctx, object)
				if err != nil {
					*object = *before
				}
				return err
			}
			more := func(o *corev1.ConfigMap) { o.Data["replicas"] = "20" }
			if err := set(more); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.because) {
				t.Errorf("%s: got %v, want the update to be denied because %s", tt.reason, err, tt.because)
			}
			less := set(func(o *corev1.ConfigMap) { o.Data["replicas"] = "2" })
			if tt.mayShrink != (less == nil) || less != nil && !apierrors.IsForbidden(less) {
				t.Errorf("%s: got %v for an update that asks less, want it to pass: %t", tt.reason, less, tt.mayShrink)
			}
			if err := set(func(o *corev1.ConfigMap) { o.Labels = map[string]string{"a": "b"} }); err != nil {
				t.Errorf("%s: got %v for an update of labels", tt.reason, err)
			}
			must(t, admin.Delete(w.ctx, object))
			eventually(w, func() error {
				if err := admin.Get(w.ctx, client.ObjectKeyFromObject(object), object); err != nil {
					return err
				}
				return set(func(o *corev1.ConfigMap) { o.Finalizers = nil })
			})
			w.waitGone(object)
		})
	}
}
