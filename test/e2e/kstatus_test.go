package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// kstatusOf returns the status of a stored object by kstatus, which Flux, kpt and others use, and what it says of it.
func kstatusOf(t testing.TB, object client.Object) (status.Status, string, error) {
	t.Helper()
	kind, err := apiutil.GVKForObject(object, admin.Scheme())
	must(t, err)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
		return "", "", err
	}
	result, err := status.Compute(stored)
	if err != nil {
		return "", "", err
	}
	return result.Status, result.Message, nil
}

// wantKstatus waits until kstatus gives a status to an object.
func wantKstatus(t testing.TB, want status.Status, object client.Object) {
	t.Helper()
	eventually(t, func() error {
		got, message, err := kstatusOf(t, object)
		if err != nil || got == want {
			return err
		}
		return fmt.Errorf("%T %s is %s (%s), want %s", object, object.GetName(), got, message, want)
	})
}

// TestKstatusOfQuota has grants, claims and requests in all their states: only what counts is Current, what Bursar
// waits for is InProgress, and what needs a person has Failed.
func TestKstatusOfQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantStatus(status.CurrentStatus, w.registration(w.resourceType()))
	unserved := w.registration(w.name + "/unserved")
	unserved.Spec.ConsumerTypeRef.Kind = "Unserved"
	w.mustCreate(unserved)
	w.wantStatus(status.InProgressStatus, unserved)

	w.wantStatus(status.CurrentStatus, w.grant("base", 1))
	ago, soon := metav1.NewTime(time.Now().Add(-time.Hour)), metav1.NewTime(time.Now().Add(time.Hour))
	w.wantStatus(status.FailedStatus, w.grantFor("over", 1, quotav1alpha1.Period{NotAfter: &ago}))
	w.wantStatus(status.InProgressStatus, w.grantFor("later", 1, quotav1alpha1.Period{NotBefore: &soon}))
	unregistered := w.grantFor("unregistered", 1, quotav1alpha1.Period{})
	w.patch(unregistered, fmt.Sprintf(`{"spec":{"allowances":[{"resourceType":%q,"buckets":[{"amount":1}]}]}}`, w.name+"/none"))
	w.wantStatus(status.InProgressStatus, unregistered)

	small, large, ofNothing := w.claim("small", 1), w.claim("large", 9), w.claim("nothing", 1)
	ofNothing.Spec.Requests[0].ResourceType = w.name + "/none"
	w.mustCreate(small)
	w.wantStatus(status.CurrentStatus, small)
	w.mustCreate(large)
	w.wantStatus(status.InProgressStatus, large)
	w.mustCreate(ofNothing)
	w.wantStatus(status.InProgressStatus, ofNothing)

	denied, withdrawn := w.newRequest("denied", 3), w.newRequest("withdrawn", 3) // more than all grants together
	w.mustCreate(denied)
	w.wantStatus(status.InProgressStatus, denied)
	decision := w.newDecision(denied, quotav1alpha1.DecisionDeny)
	decision.Spec.Reason = "the platform is full"
	approver := namedAdmin(t, "kstatus-approver")
	eventually(w, func() error { return approver.Create(w.ctx, decision) }) // once the approvers are known
	w.wantStatus(status.FailedStatus, denied)
	w.wantStatus(status.CurrentStatus, decision)
	w.mustCreate(withdrawn)
	w.patch(withdrawn, `{"spec":{"withdrawn":true}}`)
	w.waitState(withdrawn, quotav1alpha1.ReasonWithdrawn)
	w.wantStatus(status.CurrentStatus, withdrawn)
}

func (w *world) wantStatus(want status.Status, object client.Object) {
	w.Helper()
	wantKstatus(w, want, object)
}

// TestKstatusOfPolicies has policies in their states. A disabled one stays InProgress, because Ready is False by the
// API reference.
func TestKstatusOfPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	w.wantStatus(status.CurrentStatus, w.policy(w.name, nil))

	for name, change := range map[string]func(*quotav1alpha1.ClaimCreationPolicy){
		"-unserved": func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Trigger.Resource.Kind = "Unserved" },
		"-unregistered": func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = w.name + "/none"
		},
		"-not-allowed": func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Trigger.Resource.Kind = "Secret" },
		"-disabled":    func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Enabled = new(false) },
	} {
		policy := w.newPolicy(w.name + name)
		change(policy)
		w.mustCreate(policy)
		w.wantStatus(status.InProgressStatus, policy)
	}

	grants := w.mustCreateGrantPolicy(nil)
	w.wantStatus(status.CurrentStatus, grants)
	lost := w.grantPolicy(func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Name += "-lost"
		p.Spec.Target.ParentContext = &quotav1alpha1.ParentContext{APIGroup: platform.Group, Kind: platform.Kind, NameExpression: `"unregistered"`}
	})
	w.mustCreate(lost)
	w.mustCreate(w.tierMap("gold", "gold"))
	w.wantStatus(status.InProgressStatus, lost)
}

// TestKstatusOfIncreases has configurations and increases in their states.
func TestKstatusOfIncreases(t *testing.T) {
	w := newIncreased(t)
	lone := w.increase("lone", "secrets=1")
	wantKstatus(t, status.InProgressStatus, lone)

	config := w.config(w.definition("base", openmcpv1alpha1.ModeMaximum, "secrets=5"))
	wantKstatus(t, status.CurrentStatus, config)
	wantKstatus(t, status.InProgressStatus, lone) // overshadowed
	wantKstatus(t, status.CurrentStatus, w.increase("more", "secrets=9"))
}

// TestKstatusOfAllocations has a cap before and after it holds.
func TestKstatusOfAllocations(t *testing.T) {
	w := newTeam(t, "web")
	wantKstatus(t, status.CurrentStatus, w.allocation("cap", "pods=1"))
}
