package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func (w *world) secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name}}
}

// secretsToo protects the Secrets of the world as well, with a resource type and a limit of their own.
func (w *world) secretsToo(limit int64) *quotav1alpha1.ClaimCreationPolicy {
	w.Helper()
	secrets := w.name + "/secrets"
	w.register(secrets, func(s *quotav1alpha1.ResourceRegistrationSpec) {
		s.ClaimingResources = []quotav1alpha1.ClaimingResource{{Kind: "Secret"}}
	})
	w.grantTypes("secrets", map[string]int64{secrets: limit})
	return w.policy(w.name+"-secrets", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource.Kind = "Secret"
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = secrets
	})
}

// A policy fails for some objects: Bursar denies these and names the policy. Everything else goes on: objects outside
// the policy, other kinds, and the claims of other policies.
func TestPolicyThatFailsAtRunTime(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		change func(*quotav1alpha1.ClaimCreationPolicy)
		want   string
	}{
		"condition": {"the object has no data", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: "trigger.data.tier == 'gold'"})
		}, "conditions[2]"},
		"template": {"nobody is said to pay", func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = "{{.trigger.data.payer}}"
		}, "consumerRef.name"},
		"amount": {"less than nothing cannot be charged", func(p *quotav1alpha1.ClaimCreationPolicy) {
			request := &p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0]
			request.Amount, request.AmountExpression = 0, "size(trigger.metadata.name) - 100"
		}, "amountExpression"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newProtectedWorld(t, 2)
			secrets := w.secretsToo(1)
			faulty := w.policy(w.name+"-faulty", func(p *quotav1alpha1.ClaimCreationPolicy) {
				p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: "trigger.metadata.name.startsWith('odd')"})
				tt.change(p)
			})
			w.mustCreate(w.configMap("a"))
			wantNotApplicable := func() {
				t.Helper()
				err := admin.Create(w.ctx, w.configMap("odd"))
				if !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "exceeded") ||
					!strings.Contains(err.Error(), "ClaimCreationPolicy "+faulty.Name+" cannot be applied") || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %v, want a refusal that names policy %s and %s", tt.reason, err, faulty.Name, tt.want)
				}
			}
			wantNotApplicable()
			w.mustCreate(w.configMap("b"))
			w.wantBucket(2, 2, 0, 2) // the denied object holds nothing
			w.wantExceeded(w.configMap("c"))
			w.mustCreate(w.secret("a"))
			w.wantExceeded(w.secret("b"))
			w.mustDelete(w.configMap("a"))
			eventually(w, func() error { return admin.Create(w.ctx, w.configMap("c")) })
			wantNotApplicable()
			w.wantBucket(2, 2, 0, 2)

			// In warning mode, the other policies decide on the object instead.
			w.update(faulty, func() { faulty.Spec.EnforcementMode = quotav1alpha1.EnforcementModeWarn })
			w.waitCondition(faulty, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
			w.wantExceeded(w.configMap("odd"))
			w.mustDelete(w.configMap("b"))
			eventually(w, func() error { return admin.Create(w.ctx, w.configMap("odd")) })
			w.wantBucket(2, 2, 0, 2)
			w.wantStillReady(secrets)
		})
	}
}

// wantStillReady checks that a policy has always been Ready since an earlier reading.
func (w *world) wantStillReady(policy *quotav1alpha1.ClaimCreationPolicy) {
	w.Helper()
	since := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady).LastTransitionTime
	if now := w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue); !now.LastTransitionTime.Equal(&since) {
		w.Errorf("policy %s is ready since %s, want it to be since %s without a break", policy.Name, now.LastTransitionTime, since)
	}
}

// A vanished kind makes only its own policy ineffective. Others stay effective, and new ones become effective.
func TestKindThatVanishesLeavesOtherPoliciesAlone(t *testing.T) {
	t.Parallel()
	k := newKindWorld(t, "vanishes.example.com", 1)
	maps := k.name + "/maps"
	k.register(maps, nil)
	k.grantTypes("maps", map[string]int64{maps: 1})
	others := k.world.policy(k.name+"-maps", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = maps
	})
	must(t, admin.Create(k.ctx, k.gadget("a")))
	k.mustCreate(k.configMap("a"))

	k.mustDelete(k.definition.DeepCopy())
	condition := k.waitCondition(k.policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
	if want := fmt.Sprintf("kind %s in version %s is not served", k.kind.GroupKind(), k.kind.GroupVersion()); !strings.Contains(condition.Message, want) {
		t.Errorf("the condition is %+v, want it to say %q", condition, want)
	}
	k.wantExceeded(k.configMap("b"))
	k.wantStillReady(others)
	k.secretsToo(1)
	k.mustCreate(k.secret("a"))
	k.wantExceeded(k.secret("b"))
	k.mustDelete(k.configMap("a"))
	eventually(k, func() error { return admin.Create(k.ctx, k.configMap("b")) })
	k.wantStillReady(others)
}
