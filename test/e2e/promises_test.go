package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// actingAs is an administrator impersonating somebody else.
func actingAs(t *testing.T, who rest.ImpersonationConfig) client.Client {
	t.Helper()
	api, _ := adminWithWarnings(t, func(c *rest.Config) { c.Impersonate = who })
	return api
}

// The policy uses everything in templates: each function, each variable, and each field of the metadata open to
// templates.
func TestTemplatesOfAPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	const own = "example.com/"
	templates := map[string]struct{ template, want string }{
		"lower":       {"{{lower .trigger.data.title}}", "big apple"},
		"upper":       {"{{.trigger.data.title | upper}}", "BIG APPLE"},
		"title":       {"{{title .trigger.data.title}}", "Big Apple"},
		"default":     {`{{default "none" .trigger.data.missing}}`, "none"},
		"no-default":  {`{{default "none" .trigger.data.list}}`, "a,b,c"},
		"contains":    {`{{contains "app" .trigger.data.title}}`, "true"},
		"join-split":  {`{{join "-" (split "," .trigger.data.list)}}`, "a-b-c"},
		"replace":     {`{{replace "," "." .trigger.data.list}}`, "a.b.c"},
		"trim":        {"{{trim .trigger.data.padded}}", "x"},
		"toInt":       {"{{lt (toInt .trigger.data.number) 5}}", "true"},
		"toString":    {`{{eq (toString 4) .trigger.data.number}}`, "true"},
		"trigger":     {"{{.trigger.kind}} {{.trigger.metadata.name}}", "ConfigMap a"},
		"user":        {"{{.user.name}} {{.user.uid}} {{index .user.groups 0}} {{index .user.extra.team 0}}", "jane 7 system:masters sales"},
		"requestInfo": {"{{.requestInfo.verb}} {{.requestInfo.resource}} {{.requestInfo.namespace}}", "create configmaps " + w.name},
	}
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		metadata := &p.Spec.Target.ResourceClaimTemplate.Metadata
		*metadata = quotav1alpha1.ObjectTemplateMetadata{
			GenerateName: "of-{{.user.name}}-",
			Labels:       map[string]string{own + "tier": "gold"},
			Annotations:  map[string]string{},
		}
		for key, each := range templates {
			metadata.Annotations[own+key] = each.template
		}
	})
	object := w.configMap("a")
	object.Data = map[string]string{"title": "big apple", "list": "a,b,c", "padded": "  x\n", "number": "4"}
	second := object.DeepCopy()
	second.Name = "b"
	jane := actingAs(t, rest.ImpersonationConfig{UserName: "jane", UID: "7", Groups: []string{"system:masters"}, Extra: map[string][]string{"team": {"sales"}}})
	for _, each := range []*corev1.ConfigMap{object, second} {
		must(t, jane.Create(w.ctx, each))
		w.cleanUp(each)
	}
	w.wantBucket(5, 2, 3, 2)
	w.waitClaims(object.UID, second.UID) // a bucket counts a claim from its reservation on

	claims := w.claims()
	if len(claims) != 2 || claims[0].Name == claims[1].Name {
		t.Fatalf("there are the claims %+v, want one of each object, with names of their own", claims)
	}
	claim := claims[slices.IndexFunc(claims, func(c quotav1alpha1.ResourceClaim) bool { return c.Spec.ResourceRef.Name == "a" })]
	if !strings.HasPrefix(claim.Name, "of-jane-") || len(claim.Name) == len("of-jane-") || claim.Namespace != w.name {
		t.Errorf("the claim is %s/%s, want it beside its object, with a name that begins with of-jane- and goes on", claim.Namespace, claim.Name)
	}
	if got := claim.Labels[own+"tier"]; got != "gold" {
		t.Errorf("the label of the template is %q, want gold", got)
	}
	for key, each := range templates {
		if got := claim.Annotations[own+key]; got != each.want {
			t.Errorf("%s: %s makes %q, want %q", key, each.template, got, each.want)
		}
	}
}

// A policy's claim has these marks and values besides those of its template.
func TestMarksOfAPolicysClaim(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	before := time.Now().Truncate(time.Second)
	w.mustCreate(w.configMap("a"))
	claim := w.claimOf("a")
	for annotation, want := range map[string]string{
		"quota.miloapis.com/created-by": "claim-creation-plugin", "quota.miloapis.com/resource-name": "a",
	} {
		if got := claim.Annotations[annotation]; got != want {
			t.Errorf("annotation %s is %q, want %q", annotation, got, want)
		}
	}
	created, err := time.Parse(time.RFC3339, claim.Annotations["quota.miloapis.com/created-at"])
	if err != nil || created.Before(before) || created.After(time.Now()) {
		t.Errorf("the claim is said to be created at %s (%v), want a time between %s and now", created, err, before)
	}
}

// Conditions may use the requester, and the labels of the object. All must hold.
func TestConditionsOfAPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 0)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		for _, expression := range []string{
			`user.groups.exists(g, g == "customers")`,
			`!user.name.startsWith("service-")`,
			`trigger.metadata.?labels["environment"].orValue("") == "prod"`,
		} {
			p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: expression})
		}
	})
	tests := map[string]struct {
		reason, user, group, environment string
		refused                          bool
	}{
		"all":     {"all conditions hold, and there is no quota", "jane", "customers", "prod", true},
		"group":   {"others may be exempt", "jane", "staff", "prod", false},
		"service": {"so may users by name", "service-billing", "customers", "prod", false},
		"label":   {"so may objects", "jane", "customers", "test", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			object := w.configMap(name)
			object.Labels = map[string]string{"environment": tt.environment}
			err := actingAs(t, rest.ImpersonationConfig{UserName: tt.user, Groups: []string{"system:masters", tt.group}}).Create(w.ctx, object)
			if err == nil {
				w.cleanUp(object)
			}
			if refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"); refused != tt.refused || !refused && err != nil {
				t.Errorf("%s: got %v, want it refused: %t", tt.reason, err, tt.refused)
			}
		})
	}
}

// A template may take the kind of the consumer from the object. Bursar denies the object if the resource type is not
// registered for this kind.
func TestConsumerThatATemplateNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 5)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Kind = "{{.trigger.data.kind}}"
	})
	object := w.configMap("a")
	object.Data = map[string]string{"kind": "Team"}
	err := admin.Create(w.ctx, object)
	if want := "is granted to Organization.platform.example.com, not to Team.platform.example.com"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to be forbidden: %s", err, want)
	}
	object.Data["kind"] = w.consumer().Kind
	w.mustCreate(object)
	w.wantBucket(5, 1, 4, 1)
}

// A policy for an unregistered type denies nothing and makes no claims until it is ready. Meanwhile another policy for
// the same kind still enforces.
func TestPolicyThatIsNotReadyIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	registration := w.registration(w.name + "/later")
	w.cleanUp(registration) // after the policy
	policy := w.newPolicy(w.name + "-later")
	policy.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = registration.Spec.ResourceType
	w.mustCreate(policy)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionFalse)
	w.mustCreate(w.configMap("a"))
	w.claimOf("a")
	w.wantExceeded(w.configMap("b"))
	if claims := w.claims(); len(claims) != 1 {
		t.Errorf("there are the claims %+v, want that of the policy that is ready", claims)
	}
	w.mustDelete(w.configMap("a"))
	w.waitClaims() // the bucket may never have shown the charge
	must(t, admin.Create(w.ctx, registration))
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.wantExceeded(w.configMap("a"))
}

// The server accepts the maximum of everything in the reference, and rejects one more.
func TestMaximaOfTheReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := func(n int) string { return strings.Repeat("x", n) }
	registration := func(change func(*quotav1alpha1.ResourceRegistrationSpec)) client.Object {
		object := w.registration(w.name + "/unused")
		change(&object.Spec)
		return object
	}
	policy := func(change func(*quotav1alpha1.ClaimCreationPolicySpec)) client.Object {
		object := w.newPolicy(w.name)
		change(&object.Spec)
		return object
	}
	grantPolicy := func(change func(*quotav1alpha1.GrantCreationPolicySpec)) client.Object {
		object := &quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
		object.Spec.Trigger.Resource = quotav1alpha1.GrantTriggerResource{APIVersion: "v1", Kind: "ConfigMap"}
		object.Spec.Target.ResourceGrantTemplate.Spec = w.newGrant("any", allowancesOf(1)...).Spec
		change(&object.Spec)
		return object
	}
	expression := func(n int) string { return "'" + text(n-6) + "'!=''" }
	condition := func(n int) []quotav1alpha1.ConditionExpression {
		return []quotav1alpha1.ConditionExpression{{Expression: expression(n)}}
	}
	// Each makes an object with n of something.
	tests := map[string]struct {
		max    int
		object func(n int) client.Object
	}{
		"requests of a claim": {20, func(n int) client.Object {
			claim := w.claim("many", 1)
			claim.Spec.Requests = nil
			for i := range n {
				claim.Spec.Requests = append(claim.Spec.Requests, quotav1alpha1.ResourceRequest{ResourceType: fmt.Sprint("type-", i), Amount: 1})
			}
			return claim
		}},
		"allowances of a grant": {20, func(n int) client.Object { return w.newGrant("many", allowancesOf(n)...) }},
		"allowances of a grant policy": {20, func(n int) client.Object {
			return grantPolicy(func(s *quotav1alpha1.GrantCreationPolicySpec) {
				s.Target.ResourceGrantTemplate.Spec.Allowances = allowancesOf(n)
			})
		}},
		"claiming resources": {20, func(n int) client.Object {
			return registration(func(s *quotav1alpha1.ResourceRegistrationSpec) {
				s.ClaimingResources = nil
				for i := range n {
					s.ClaimingResources = append(s.ClaimingResources, quotav1alpha1.ClaimingResource{Kind: fmt.Sprint("Kind", i)})
				}
			})
		}},
		"description": {500, func(n int) client.Object {
			return registration(func(s *quotav1alpha1.ResourceRegistrationSpec) { s.Description = text(n) })
		}},
		"base unit": {50, func(n int) client.Object {
			return registration(func(s *quotav1alpha1.ResourceRegistrationSpec) { s.BaseUnit = text(n) })
		}},
		"display unit": {50, func(n int) client.Object {
			return registration(func(s *quotav1alpha1.ResourceRegistrationSpec) { s.DisplayUnit = text(n) })
		}},
		"claiming kind": {63, func(n int) client.Object {
			return registration(func(s *quotav1alpha1.ResourceRegistrationSpec) { s.ClaimingResources[0].Kind = text(n) })
		}},
		"conditions of a policy": {10, func(n int) client.Object {
			return policy(func(s *quotav1alpha1.ClaimCreationPolicySpec) {
				s.Trigger.Conditions = slices.Repeat(condition(10), n)
			})
		}},
		"condition": {1024, func(n int) client.Object {
			return policy(func(s *quotav1alpha1.ClaimCreationPolicySpec) { s.Trigger.Conditions = condition(n) })
		}},
		"message of a condition": {256, func(n int) client.Object {
			return policy(func(s *quotav1alpha1.ClaimCreationPolicySpec) { s.Trigger.Conditions[0].Message = text(n) })
		}},
		"conditions of a grant policy": {10, func(n int) client.Object {
			return grantPolicy(func(s *quotav1alpha1.GrantCreationPolicySpec) { s.Trigger.Conditions = slices.Repeat(condition(10), n) })
		}},
		"parent kind": {63, func(n int) client.Object {
			return grantPolicy(func(s *quotav1alpha1.GrantCreationPolicySpec) {
				s.Target.ParentContext = &quotav1alpha1.ParentContext{APIGroup: "example.com", Kind: "K" + text(n-1), NameExpression: "'a'"}
			})
		}},
		"parent name": {512, func(n int) client.Object {
			return grantPolicy(func(s *quotav1alpha1.GrantCreationPolicySpec) {
				s.Target.ParentContext = &quotav1alpha1.ParentContext{APIGroup: "example.com", Kind: "Kind", NameExpression: "'" + text(n-2) + "'"}
			})
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := admin.Create(w.ctx, tt.object(tt.max), client.DryRunAll); err != nil {
				t.Errorf("%d are the most: got %v, want them accepted", tt.max, err)
			}
			if err := admin.Create(w.ctx, tt.object(tt.max+1), client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("%d are the most: got %v for one more, want it refused as invalid", tt.max, err)
			}
		})
	}
}

// allowancesOf are allowances of n types.
func allowancesOf(n int) []quotav1alpha1.Allowance {
	var allowances []quotav1alpha1.Allowance
	for i := range n {
		allowances = append(allowances, quotav1alpha1.Allowance{ResourceType: fmt.Sprint("type-", i), Buckets: []quotav1alpha1.Bucket{{Amount: 1}}})
	}
	return allowances
}

// The fields of a registration that define the meaning of stored amounts are immutable.
func TestRegistrationsStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}
	refused := map[string]func(*quotav1alpha1.ResourceRegistrationSpec){
		"resourceType":    func(s *quotav1alpha1.ResourceRegistrationSpec) { s.ResourceType += "s" },
		"consumerTypeRef": func(s *quotav1alpha1.ResourceRegistrationSpec) { s.ConsumerTypeRef.Kind = "Team" },
		"type":            func(s *quotav1alpha1.ResourceRegistrationSpec) { s.Type = quotav1alpha1.RegistrationTypeAllocation },
		"baseUnit":        func(s *quotav1alpha1.ResourceRegistrationSpec) { s.BaseUnit = "chart" },
	}
	grant := w.grant("base", 1)
	for field, change := range refused {
		must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(registration), registration))
		change(&registration.Spec)
		if err := admin.Update(w.ctx, registration); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+field) {
			t.Errorf("got %v, want a refusal to change spec.%s", err, field)
		}
	}
	must(t, admin.Delete(w.ctx, grant))
	w.update(registration, func() {
		registration.Spec.BaseUnit = "chart"
		registration.Spec.DisplayUnit, registration.Spec.UnitConversionFactor = "atlas", 10
		registration.Spec.Description = "maps, in boxes"
		registration.Spec.ClaimingResources = append(registration.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{Kind: "Secret"})
	})
	w.waitCondition(registration, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	if diff := cmp.Diff(registration.Generation, registration.Status.ObservedGeneration); diff != "" {
		t.Errorf("the status is about another generation (-want +got):\n%s", diff)
	}
}
