package e2e

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
)

func TestOrderOfArrival(t *testing.T) {
	t.Parallel()
	const group, kind = "late.example.com", "Tenant"
	w := &world{T: t, ctx: t.Context(), name: "order-of-arrival"}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})

	registration := w.registration(w.resourceType())
	registration.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: group, Kind: kind}
	grant := &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "early", Namespace: w.name},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: group, Kind: kind, Name: "nobody-yet"},
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 1}}}},
		},
	}
	policy := w.newPolicy(w.name)
	policy.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = grant.Spec.ConsumerRef
	claim := w.claim("early", 1)
	claim.Spec.ConsumerRef = grant.Spec.ConsumerRef

	// The registration comes last, but the cleanup deletes its dependents first.
	w.cleanUp(registration)
	w.mustCreate(policy)
	w.mustCreate(grant)
	w.mustCreate(claim)
	if err := admin.Create(w.ctx, registration); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{registration, grant} {
		if c := w.waitCondition(object, quotav1alpha1.ConditionActive, metav1.ConditionFalse); c.Reason != quotav1alpha1.ReasonValidationFailed {
			t.Errorf("%T: the reason is %s, want ValidationFailed", object, c.Reason)
		}
	}
	if c := w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse); c.Reason != quotav1alpha1.ReasonValidationFailed {
		t.Errorf("policy: the reason is %s, want ValidationFailed", c.Reason)
	}
	w.waitReason(claim, quotav1alpha1.ReasonValidationFailed)

	// The kind arrives, and Bursar corrects everything by itself.
	w.mustCreate(platform.Definition(group, kind, "tenants"))
	w.waitCondition(registration, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.waitCondition(grant, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	message := w.wantExceeded(w.configMap("a"))
	if !strings.Contains(message, "Tenant nobody-yet") {
		t.Errorf("the message %q does not name the consumer", message)
	}
}

// TestGrantGainsResourceTypes adds resource types to a grant right after their registrations. The grant never stops
// counting.
func TestGrantGainsResourceTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 5)
	events, err := admin.Watch(w.ctx, &quotav1alpha1.ResourceGrantList{}, client.InNamespace(w.name))
	must(t, err)
	defer events.Stop()
	for i := range 10 {
		another := fmt.Sprint(w.resourceType(), "-", i)
		w.mustCreate(w.registration(another))
		change(t, grant, func(g *quotav1alpha1.ResourceGrant) {
			g.Spec.Allowances = append(g.Spec.Allowances, quotav1alpha1.Allowance{ResourceType: another, Buckets: []quotav1alpha1.Bucket{{Amount: 1}}})
		})
	}
	for isCurrent := false; !isCurrent; {
		seen := await.Receive(t, soon, events.ResultChan()).Object.(*quotav1alpha1.ResourceGrant)
		active := apimeta.FindStatusCondition(seen.Status.Conditions, quotav1alpha1.ConditionActive)
		if active.Status != metav1.ConditionTrue {
			t.Fatalf("the grant with %d resource types is inactive: %s", len(seen.Spec.Allowances), active.Message)
		}
		isCurrent = active.ObservedGeneration == grant.Generation
	}
}

// TestPolicyGainsResourceTypes adds resource types to a policy right after their registrations. The policy never stops
// enforcing.
func TestPolicyGainsResourceTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	policy := w.policy(w.name, nil)
	w.mustCreate(w.configMap("a"))
	for i := range 5 {
		another := fmt.Sprint(w.resourceType(), "-", i)
		w.mustCreate(w.registration(another))
		change(t, policy, func(p *quotav1alpha1.ClaimCreationPolicy) {
			template := &p.Spec.Target.ResourceClaimTemplate.Spec
			template.Requests = append(template.Requests, quotav1alpha1.ResourceRequestTemplate{ResourceType: another, Amount: 1})
		})
		w.denyUntil(policy, metav1.ConditionTrue)
	}
}

func TestDuplicateResourceType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := w.registration(w.resourceType())
	second.Name += "-again"
	err := admin.Create(w.ctx, second)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.resourceType") {
		t.Errorf("got %v, want a refusal that names spec.resourceType", err)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	requests := func(n int) []quotav1alpha1.ResourceRequest {
		all := make([]quotav1alpha1.ResourceRequest, n)
		for i := range all {
			all[i] = quotav1alpha1.ResourceRequest{ResourceType: fmt.Sprintf("t%d", i), Amount: 1}
		}
		return all
	}
	withRequests := func(requests ...quotav1alpha1.ResourceRequest) client.Object {
		claim := w.claim("bad", 1)
		claim.Spec.Requests = requests
		return claim
	}
	one := quotav1alpha1.ResourceRequest{ResourceType: w.resourceType(), Amount: 1}
	withPolicy := func(change func(*quotav1alpha1.ClaimCreationPolicy)) client.Object {
		policy := w.newPolicy("bad-" + w.name)
		change(policy)
		return policy
	}
	tests := map[string]struct {
		reason string
		object client.Object
		want   string
	}{
		"zero":     {"a claim for nothing is a mistake", w.claim("bad", 0), "spec.requests[0].amount"},
		"negative": {"and one for less than nothing", w.claim("bad", -1), "spec.requests[0].amount"},
		"too many": {"20 requests are the most", withRequests(requests(21)...), "spec.requests"},
		"none":     {"one is the least", withRequests(), "spec.requests"},
		"twice":    {"each type once", withRequests(one, one), "spec.requests"},
		"forged":   {"only Bursar marks claims as a policy's", markedClaim(w), "auto-created"},
		"negative grant": {"amounts are not negative", func() client.Object {
			return &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: w.name}, Spec: quotav1alpha1.ResourceGrantSpec{
				ConsumerRef: w.consumer(), Allowances: []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: -1}}}},
			}}
		}(), "spec.allowances[0].buckets[0].amount"},
		"overflowing grant": {"sums fit an int64", func() client.Object {
			return &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: w.name}, Spec: quotav1alpha1.ResourceGrantSpec{
				ConsumerRef: w.consumer(), Allowances: []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: math.MaxInt64}, {Amount: 1}}}},
			}}
		}(), "spec.allowances"},
		"loop": {"templates have no loops", withPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "{{range .trigger.data}}x{{end}}"
		}), "resourceClaimTemplate.metadata.name"},
		"broken CEL": {"with its position", withPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions[0].Expression = "trigger.metadata.name =="
		}), "spec.trigger.conditions[0].expression"},
		"not boolean": {"a condition is true or false", withPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions[0].Expression = "1 + 1"
		}), "spec.trigger.conditions[0].expression"},
		"own kind": {"Bursar does not protect itself", withPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceClaim"}
		}), "spec.trigger.resource"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := admin.Create(w.ctx, tt.object)
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
				w.cleanUp(tt.object)
				t.Fatalf("%s: got %v, want a refusal", tt.reason, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: the message %q does not name %s", tt.reason, err, tt.want)
			}
		})
	}
	w.wantBucket(10, 0, 10, 0)
}

func markedClaim(w *world) client.Object {
	claim := w.claim("bad", 1)
	claim.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true"}
	return claim
}

func TestCostlyConditionIsCutShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 10)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{
			Expression: "trigger.data.all(a, trigger.data.all(b, trigger.data.all(c, a + b != c)))",
		})
	})
	object := w.configMap("many")
	object.Data = map[string]string{}
	for n := range 2000 {
		object.Data[fmt.Sprint("key-", n)] = "value"
	}
	err := admin.Create(w.ctx, object)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "conditions[1]") || strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("got %v, want a refusal that names the condition", err)
	}
}

func TestClaimOfLivingObjectMayNotBeDeleted(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.mustCreate(w.configMap("a"))
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-a", Namespace: w.name}}
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	err := admin.Delete(w.ctx, claim)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "still exists") {
		t.Errorf("got %v, want a refusal because the object still exists", err)
	}
	w.wantBucket(1, 1, 0, 1)
}

func TestAccess(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		path   string
		want   int
	}{
		"readiness": {"health is for everyone", "/readyz", 200},
		"version":   {"so is the version", "/version", 200},
		"core":      {"and which core kinds are served", "/api", 200},
		"groups":    {"and which others", "/apis", 200},
		"objects":   {"but what is behind it takes credentials", "/api/v1/namespaces", 401},
		"quota":     {"as does quota", "/apis/quota.miloapis.com/v1alpha1/resourcegrants", 401},
		"metrics":   {"and everything else", "/metrics", 401},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, err := anonymousGet(context.Background(), tt.path)
			if err != nil {
				t.Fatal(err)
			}
			if code != tt.want {
				t.Errorf("%s: GET %s answers %d, want %d", tt.reason, tt.path, code, tt.want)
			}
		})
	}
}

// A typo in the kind of a policy ends nothing: the former kind stays under quota until the new one is known.
func TestTypoInTheKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	policy := w.policy(w.name, nil)
	w.mustCreate(w.configMap("a"))
	former := policy.Generation

	change(t, policy, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Trigger.Resource.APIVersion = "v7" })
	w.denyUntil(policy, metav1.ConditionFalse)

	message := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady).Message
	if !strings.Contains(message, "version v7 is not served") || !strings.Contains(message, fmt.Sprintf("goes on with generation %d", former)) {
		t.Errorf("the policy says %q", message)
	}
	if effective := policy.Status.Effective; effective == nil || effective.Generation != former {
		t.Errorf("effective is %+v, want generation %d", effective, former)
	}

	change(t, policy, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "Secret"}
	})
	w.denyUntil(policy, metav1.ConditionFalse) // another kind that exists may be a typo, too

	registration := w.registration(w.resourceType())
	change(t, registration, func(r *quotav1alpha1.ResourceRegistration) {
		r.Spec.ClaimingResources = append(r.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{Kind: "Secret"})
	})
	eventually(t, func() error {
		must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(policy), policy))
		if effective := policy.Status.Effective; effective == nil || effective.Generation != policy.Generation {
			return fmt.Errorf("effective is %+v, want the generation for Secrets", effective)
		}
		return nil
	})
	w.mustCreate(w.configMap("b"))
}

// denyUntil creates a ConfigMap beyond the limit until the latest generation of a policy has a condition Ready. Each
// create has to be denied.
func (w *world) denyUntil(policy *quotav1alpha1.ClaimCreationPolicy, status metav1.ConditionStatus) {
	w.Helper()
	eventually(w.T, func() error {
		if err := admin.Create(w.ctx, w.configMap("beyond")); !apierrors.IsForbidden(err) {
			w.Fatalf("got %v, want a denial", err)
		}
		must(w.T, admin.Get(w.ctx, client.ObjectKeyFromObject(policy), policy))
		ready := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady)
		if ready == nil || ready.Status != status || ready.ObservedGeneration != policy.Generation {
			return fmt.Errorf("Ready is %+v, want %s of generation %d", ready, status, policy.Generation)
		}
		return nil
	})
}
