package e2e

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// mustPolicy creates a policy for requests of the world's resource type.
func (w *world) mustPolicy(name string, change func(*quotav1alpha1.QuotaRequestPolicySpec)) *quotav1alpha1.QuotaRequestPolicy {
	w.Helper()
	policy := &quotav1alpha1.QuotaRequestPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name}}
	policy.Spec.ResourceTypes = []string{w.resourceType()}
	change(&policy.Spec)
	w.mustCreate(policy)
	return policy
}

// ask creates a request for a limit, of the user tom.
func (w *world) ask(name string, limit int64) *quotav1alpha1.QuotaRequest {
	w.Helper()
	request := w.newRequest(name, limit)
	must(w, namedAdmin(w, "tom").Create(w.ctx, request))
	return request
}

// wantMessage waits for a part of the message of a request's state.
func (w *world) wantMessage(request *quotav1alpha1.QuotaRequest, part string) {
	w.Helper()
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		state := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved)
		if state == nil || !strings.Contains(state.Message, part) {
			return fmt.Errorf("the state of %s is %+v, want %q in its message", request.Name, state, part)
		}
		return nil
	})
}

// decides creates a decision as a user in groups.
func (w *world) decides(user string, decision *quotav1alpha1.QuotaDecision, groups ...string) error {
	return namedAdmin(w, user, groups...).Create(w.ctx, decision)
}

// A policy approves small requests at once, sends others to a group, and denies hopeless ones.
func TestQuotaRequestPolicy(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustPolicy("sizes", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{
			{Name: "hopeless", Condition: "asks.exists(a, a.wanted > 100)", Action: quotav1alpha1.ActionDeny, Message: "talk to sales"},
			{Name: "small", Condition: "asks.all(a, a.increase <= 5 && a.limit >= a.used && a.total >= a.limit)", Action: quotav1alpha1.ActionApprove},
			{Name: "large", Action: quotav1alpha1.ActionAsk, Approvers: []string{"finance"}, Approvals: 2},
		}
	})
	small := w.ask("small", 4)
	w.waitState(small, quotav1alpha1.ReasonApproved)
	if ref := small.Status.PolicyRef; ref == nil || ref.Rule != "small" || len(small.Status.Decisions) != 1 || small.Status.Decisions[0].DecidedBy != nil {
		t.Errorf("got the status %+v, want the decision of the rule small", small.Status)
	}
	w.wantBucket(4, 0, 4, 0)

	hopeless := w.ask("hopeless", 101)
	w.waitState(hopeless, quotav1alpha1.ReasonDenied)
	w.wantMessage(hopeless, "by its rule hopeless: talk to sales")

	large := w.ask("large", 20)
	w.wantMessage(large, "waits for 2 approvals by the group finance")
	if err := w.decides("ann", w.newDecision(large, quotav1alpha1.DecisionApprove)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "groups finance") {
		t.Errorf("got %v for a decision from outside the group", err)
	}
	if err := w.decides("tom", w.newDecision(large, quotav1alpha1.DecisionApprove), "finance"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "of their own") {
		t.Errorf("got %v for the approval of one's own request by a member of the group", err)
	}
	must(t, w.decides("ann", w.newDecision(large, quotav1alpha1.DecisionApprove), "finance"))
	w.wantMessage(large, "by the group finance: 1 given")
	if err := w.decides("ann", w.newDecision(large, quotav1alpha1.DecisionApprove), "finance"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "have already approved it") {
		t.Errorf("got %v for the second approval of one user", err)
	}
	must(t, w.decides("bob", w.newDecision(large, quotav1alpha1.DecisionApprove), "finance"))
	w.waitState(large, quotav1alpha1.ReasonApproved)
	w.wantBucket(20, 0, 20, 0)

	// Nobody needs to decide on quota the consumer already has.
	had := w.ask("had", 20)
	w.waitState(had, quotav1alpha1.ReasonApproved)
	w.wantMessage(had, "there is nothing to grant")
}

// Of several policies the strictest rule applies, and all ceilings and times do.
func TestQuotaRequestPoliciesTogether(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustPolicy("open", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "all", Action: quotav1alpha1.ActionApprove}}
		p.MaxDuration = &metav1.Duration{Duration: time.Hour}
	})
	first := w.ask("first", 2)
	w.waitState(first, quotav1alpha1.ReasonPartiallyApproved)
	if until := first.Status.Approved.Until; until == nil || time.Until(until.Time) > time.Hour+time.Minute || time.Until(until.Time) < 50*time.Minute {
		t.Errorf("it ends at %v, want in an hour", until)
	}
	w.mustPolicy("bounded", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "large", Condition: "asks.exists(a, a.wanted > 3)", Action: quotav1alpha1.ActionAsk}}
		p.Ceilings = []quotav1alpha1.QuotaRequestCeiling{{ResourceType: w.resourceType(), Limit: 10}}
		p.ExpireAfter = &metav1.Duration{Duration: 3 * time.Second}
	})
	w.waitState(w.ask("three", 3), quotav1alpha1.ReasonPartiallyApproved)
	beyond := w.ask("beyond", 11)
	w.waitState(beyond, quotav1alpha1.ReasonDenied)
	w.wantMessage(beyond, "ask for 7")
	w.waitState(w.ask("nobody-decides", 5), quotav1alpha1.ReasonExpired)
}

// A ceiling holds at the approval, too: another request may have raised the limit since.
func TestQuotaRequestCeilingAtApproval(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustPolicy("ceiling", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Ceilings = []quotav1alpha1.QuotaRequestCeiling{{ResourceType: w.resourceType(), Limit: 10}}
	})
	var requests []*quotav1alpha1.QuotaRequest
	for _, name := range []string{"one", "two"} {
		request := w.newRequest(name, 0)
		request.Spec.Requests[0].Limit, request.Spec.Requests[0].Increase = nil, new(int64(6))
		must(t, namedAdmin(t, "tom").Create(w.ctx, request))
		w.waitState(request, quotav1alpha1.ReasonPending)
		requests = append(requests, request)
	}
	for _, request := range requests {
		must(t, w.decides("ann", w.newDecision(request, quotav1alpha1.DecisionApprove)))
	}
	eventually(t, func() error {
		var states []string
		for _, request := range requests {
			must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(request), request))
			states = append(states, request.Status.Conditions[0].Reason)
		}
		if got := strings.Join(states, " "); got != "Approved Denied" && got != "Denied Approved" {
			return fmt.Errorf("the requests are %s, want one approved and one denied", got)
		}
		return nil
	})
	w.wantBucket(7, 0, 7, 0)
}

// A request that the policy fails for waits until somebody corrects this. Nobody may decide on it until then.
func TestQuotaRequestPolicyThatFails(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	wrong := &quotav1alpha1.QuotaRequestPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-wrong"}}
	wrong.Spec.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "r", Condition: "object.size() > 1", Action: quotav1alpha1.ActionApprove}}
	if err := admin.Create(w.ctx, wrong); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "sees request, consumer and asks") {
		t.Errorf("got %v for an unknown variable", err)
	}
	policy := w.mustPolicy("tiers", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "gold", Condition: "consumer.metadata.labels.tier == 'gold'", Action: quotav1alpha1.ActionApprove}}
	})
	request := w.ask("stuck", 3)
	w.wantMessage(request, "cannot be applied to this request")
	if err := w.decides("ann", w.newDecision(request, quotav1alpha1.DecisionApprove)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot be applied") {
		t.Errorf("got %v for a decision while it is unknown who decides", err)
	}
	ref := w.consumer()
	consumer := &unstructured.Unstructured{}
	consumer.SetGroupVersionKind(schema.GroupVersionKind{Group: ref.APIGroup, Version: "v1", Kind: ref.Kind})
	consumer.SetName(ref.Name)
	consumer.SetLabels(map[string]string{"tier": "gold"})
	w.mustCreate(consumer)
	change(t, policy, func(p *quotav1alpha1.QuotaRequestPolicy) { p.Spec.Rules[0].Message = "gold customers may" })
	w.waitState(request, quotav1alpha1.ReasonApproved)
	w.wantBucket(3, 0, 3, 0)
}

// Rules approve a request only if they cover all its resource types. An increase beyond the largest possible amount
// still exceeds a rule's bound.
func TestQuotaRequestPolicySeesTheWhole(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	other := w.registration(w.resourceType() + "-others")
	w.mustCreate(other)
	w.waitCondition(other, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.mustPolicy("small", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "small", Condition: "asks.all(a, a.wanted <= 5)", Action: quotav1alpha1.ActionApprove}}
	})
	increase := func(resourceType string, amount int64) quotav1alpha1.RequestedQuota {
		return quotav1alpha1.RequestedQuota{ResourceType: resourceType, Increase: &amount}
	}
	for name, requests := range map[string][]quotav1alpha1.RequestedQuota{
		"overflow":     {increase(w.resourceType(), math.MaxInt64-1)},
		"another-type": {increase(w.resourceType(), 1), increase(other.Spec.ResourceType, 1)},
	} {
		request := w.newRequest(name, 0)
		request.Spec.Requests = requests
		must(t, namedAdmin(t, "tom").Create(w.ctx, request))
		w.wantMessage(request, "waits for a decision")
	}
	w.wantBucket(2, 0, 2, 0)
}

// A request with its grant waiting under a cap counts for later ones, and its requester can withdraw it.
func TestQuotaRequestUnderACap(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	w.setCaps(0, 4)
	eventually(w, func() error { return w.wantTooMuch(5, "maxTotal") })
	w.mustPolicy("ceiling", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "all", Action: quotav1alpha1.ActionApprove}}
		p.Ceilings = []quotav1alpha1.QuotaRequestCeiling{{ResourceType: w.resourceType(), Limit: 10}}
	})
	first := w.ask("first", 8)
	w.wantMessage(first, "maxTotal")
	if first.Status.Approved == nil || !first.Status.Approved.GrantWaits {
		t.Errorf("got the status %+v, want that the grant waits", first.Status)
	}
	second := w.newRequest("second", 0)
	second.Spec.Requests[0].Limit, second.Spec.Requests[0].Increase = nil, new(int64(5))
	must(t, namedAdmin(t, "tom").Create(w.ctx, second))
	w.waitState(second, quotav1alpha1.ReasonDenied)
	w.wantMessage(second, "ask for 2 maps more at most")

	update := first.DeepCopy()
	update.Spec.Withdrawn, update.Spec.WithdrawnBy = true, &quotav1alpha1.RequestUser{Username: "somebody-else"}
	must(t, namedAdmin(t, "tim").Patch(w.ctx, update, client.MergeFrom(first)))
	w.waitState(first, quotav1alpha1.ReasonWithdrawn)
	w.wantMessage(first, "tim withdrew it")
	grant := &quotav1alpha1.ResourceGrant{}
	if err := admin.Get(w.ctx, client.ObjectKey{Namespace: first.Namespace, Name: first.Status.Approved.Grant}, grant); err == nil && grant.DeletionTimestamp == nil {
		t.Error("the grant of a request that was withdrawn stays")
	}
	// Within the cap Bursar grants the request at once.
	w.waitState(w.ask("third", 4), quotav1alpha1.ReasonApproved)
	w.wantBucket(4, 0, 4, 0)
}

// An approver may still deny, until others have approved, too.
func TestQuotaRequestApprovedAndDenied(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustPolicy("two", func(p *quotav1alpha1.QuotaRequestPolicySpec) {
		p.Rules = []quotav1alpha1.QuotaRequestRule{{Name: "two", Action: quotav1alpha1.ActionAsk, Approvals: 2}}
	})
	request := w.ask("doubtful", 3)
	w.wantMessage(request, "waits for 2 approvals")
	must(t, w.decides("ann", w.newDecision(request, quotav1alpha1.DecisionApprove)))
	w.wantMessage(request, "1 given")
	denial := w.newDecision(request, quotav1alpha1.DecisionDeny)
	denial.Spec.Reason = "on second thought"
	must(t, w.decides("ann", denial))
	w.waitState(request, quotav1alpha1.ReasonDenied)
	if owners := denial.OwnerReferences; len(owners) != 1 || owners[0].UID != request.UID {
		t.Errorf("the decision belongs to %+v, want its request", owners)
	}
}
