package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func validGrantPolicy() *quotav1alpha1.GrantCreationPolicy {
	return &quotav1alpha1.GrantCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "tiers"},
		Spec: quotav1alpha1.GrantCreationPolicySpec{
			Trigger: quotav1alpha1.GrantTrigger{
				Resource:   quotav1alpha1.GrantTriggerResource{APIVersion: "example.com/v1", Kind: "Organization"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: `object.spec.tier == "gold"`}},
			},
			Target: quotav1alpha1.GrantTarget{ResourceGrantTemplate: quotav1alpha1.ResourceGrantTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{
					Name: "{{.trigger.metadata.name}}-base", Namespace: "org-{{.object.metadata.name}}",
					Labels:      map[string]string{"quota.miloapis.com/tier": "gold"},
					Annotations: map[string]string{"for": "{{.trigger.spec.tier | upper}}"},
				},
				Spec: quotav1alpha1.ResourceGrantSpec{
					ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "{{.trigger.kind}}", Name: "{{.trigger.metadata.name}}"},
					Allowances:  []quotav1alpha1.Allowance{{ResourceType: "example.com/projects", Buckets: []quotav1alpha1.Bucket{{Amount: 5}}}},
				},
			}},
		},
	}
}

func organization() map[string]any {
	return map[string]any{
		"apiVersion": "example.com/v1", "kind": "Organization",
		"metadata": map[string]any{"name": "acme"},
		"spec":     map[string]any{"tier": "gold", "parent": "emea", "number": int64(3), "empty": ""},
	}
}

func compileGrant(t *testing.T, change func(*quotav1alpha1.GrantCreationPolicy)) *GrantPolicy {
	t.Helper()
	policy := validGrantPolicy()
	if change != nil {
		change(policy)
	}
	compiled, errs := CompileGrant(policy)
	if len(errs) > 0 {
		t.Fatalf("compile the policy: %v", errs.ToAggregate())
	}
	return compiled
}

func TestGrantRender(t *testing.T) {
	got, err := compileGrant(t, nil).Render(organization())
	if err != nil {
		t.Fatal(err)
	}
	want := &quotav1alpha1.ResourceGrant{
		TypeMeta: metav1.TypeMeta{APIVersion: "quota.miloapis.com/v1alpha1", Kind: "ResourceGrant"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "acme-base", Namespace: "org-acme",
			Labels: map[string]string{"quota.miloapis.com/tier": "gold"}, Annotations: map[string]string{"for": "GOLD"},
		},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Organization", Name: "acme"},
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: "example.com/projects", Buckets: []quotav1alpha1.Bucket{{Amount: 5}}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("grant (-want +got):\n%s", diff)
	}
}

func TestGrantNames(t *testing.T) {
	for name, tc := range map[string]struct {
		reason                     string
		name, generateName         string
		wantName, wantGenerateName string
	}{
		"name":         {"the name wins", "{{.trigger.spec.tier}}", "x-", "gold", ""},
		"generateName": {"then generateName", "", "{{.trigger.spec.tier}}-", "", "gold-"},
		"empty":        {"a name that renders to nothing counts as none", "{{.trigger.spec.empty}}", "g-", "", "g-"},
		"neither":      {"then the policy's name", "", "", "", "tiers-"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compileGrant(t, func(p *quotav1alpha1.GrantCreationPolicy) {
				p.Spec.Target.ResourceGrantTemplate.Metadata.Name = tc.name
				p.Spec.Target.ResourceGrantTemplate.Metadata.GenerateName = tc.generateName
			})
			got, err := p.Render(organization())
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != tc.wantName || got.GenerateName != tc.wantGenerateName {
				t.Errorf("%s: got name %q and generateName %q, want %q and %q", tc.reason, got.Name, got.GenerateName, tc.wantName, tc.wantGenerateName)
			}
		})
	}
}

func TestGrantHasNoRequest(t *testing.T) {
	p := compileGrant(t, func(p *quotav1alpha1.GrantCreationPolicy) {
		p.Spec.Target.ResourceGrantTemplate.Metadata.Annotations = map[string]string{"by": "<{{.user.name}}{{.requestInfo.verb}}>"}
	})
	if !p.UsesRequest() {
		t.Error("the policy does not tell that its template speaks of the request")
	}
	if compileGrant(t, nil).UsesRequest() {
		t.Error("a policy tells that its template speaks of the request, and it does not")
	}
	got, err := p.Render(organization())
	if err != nil {
		t.Fatal(err)
	}
	if want := "<>"; got.Annotations["by"] != want {
		t.Errorf("got %q, want %q: the variables are there, and empty", got.Annotations["by"], want)
	}
}

func TestGrantRenderFails(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		name   string
		want   string
	}{
		"missing":   {"a missing field is named", "{{.trigger.spec.region}}", `metadata.name "{{.trigger.spec.region}}": 1:3: .trigger.spec.region is not set`},
		"not valid": {"what is rendered is checked", "{{.trigger.metadata.name}}_", `the text "acme_" is not valid`},
		"user":      {"no user, no name of a consumer", "", `consumerRef.name "{{.user.name}}": the text is empty`},
	} {
		t.Run(name, func(t *testing.T) {
			p := compileGrant(t, func(p *quotav1alpha1.GrantCreationPolicy) {
				p.Spec.Target.ResourceGrantTemplate.Metadata.Name = tc.name
				if tc.name == "" {
					p.Spec.Target.ResourceGrantTemplate.Spec.ConsumerRef.Name = "{{.user.name}}"
				}
			})
			if _, err := p.Render(organization()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want it to contain %s", tc.reason, err, tc.want)
			}
		})
	}
}

func TestGrantMatches(t *testing.T) {
	for name, tc := range map[string]struct {
		reason     string
		expression string
		want       bool
		wantErr    string
	}{
		"holds":   {"the object is object", `object.spec.tier == "gold"`, true, ""},
		"trigger": {"and trigger", `trigger.spec.tier == "silver"`, false, ""},
		"missing": {"a missing field is an error", `object.spec.region == "x"`, false, "no such key: region"},
		"type":    {"as is what is not boolean", `object.spec.tier`, false, "it yields string, not bool"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compileGrant(t, func(p *quotav1alpha1.GrantCreationPolicy) { p.Spec.Trigger.Conditions[0].Expression = tc.expression })
			got, err := p.Matches(t.Context(), organization())
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: got %t, %v, want %t, %q", tc.reason, got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestParentName(t *testing.T) {
	for name, tc := range map[string]struct {
		reason     string
		expression string
		want       string
		wantErr    string
	}{
		"none":     {"without a parent context there is no name", "", "", ""},
		"literal":  {"a name may be fixed", `"acme-corp"`, "acme-corp", ""},
		"field":    {"or a field", `object.spec.parent`, "emea", ""},
		"function": {"or computed", `trigger.metadata.name.split("m")[0]`, "ac", ""},
		"empty":    {"but not empty", `object.spec.empty`, "", "it yields an empty string"},
		"number":   {"nor a number", `object.spec.number`, "", "it yields int, not a string"},
		"missing":  {"nor missing", `object.spec.region`, "", "no such key: region"},
		"huge":     {"nor without end", `object.metadata.name.replace("a", "` + strings.Repeat("b", 300) + `")`, "", "more than 253 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compileGrant(t, func(p *quotav1alpha1.GrantCreationPolicy) {
				if tc.expression != "" {
					p.Spec.Target.ParentContext = &quotav1alpha1.ParentContext{APIGroup: "example.com", Kind: "Organization", NameExpression: tc.expression}
				}
			})
			got, err := p.ParentName(t.Context(), organization())
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: got %q, %v, want %q, %q", tc.reason, got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestCompileGrantErrors(t *testing.T) {
	const template = "spec.target.resourceGrantTemplate."
	metadata := func(change func(*quotav1alpha1.ObjectTemplateMetadata)) func(*quotav1alpha1.GrantCreationPolicy) {
		return func(p *quotav1alpha1.GrantCreationPolicy) { change(&p.Spec.Target.ResourceGrantTemplate.Metadata) }
	}
	condition := func(expression string) func(*quotav1alpha1.GrantCreationPolicy) {
		return func(p *quotav1alpha1.GrantCreationPolicy) { p.Spec.Trigger.Conditions[0].Expression = expression }
	}
	parent := func(expression string) func(*quotav1alpha1.GrantCreationPolicy) {
		return func(p *quotav1alpha1.GrantCreationPolicy) {
			p.Spec.Target.ParentContext = &quotav1alpha1.ParentContext{APIGroup: "example.com", Kind: "Organization", NameExpression: expression}
		}
	}
	notSeen := func(name string) string {
		return fmt.Sprintf("a GrantCreationPolicy does not see %s here: it applies to an object, and sees trigger and object", name)
	}
	for name, tc := range map[string]struct {
		reason string
		change func(*quotav1alpha1.GrantCreationPolicy)
		want   []string
	}{
		"syntax": {"CEL that is none, with its position", condition("object.spec ="),
			[]string{`spec.trigger.conditions[0].expression: Invalid value: "object.spec =": 1:13: Syntax error: token recognition error at: '='`}},
		"bool": {"a condition is true or false", condition("1"),
			[]string{`spec.trigger.conditions[0].expression: Invalid value: "1": 1:1: a condition must yield bool, not int`}},
		"user": {"there is no request to judge", condition(`object.a && user.name == "x"`),
			[]string{`spec.trigger.conditions[0].expression: Invalid value: "object.a && user.name == \"x\"": 1:13: ` + notSeen("user")}},
		"parent": {"nor to name a control plane by", parent("requestInfo.name"),
			[]string{`spec.target.parentContext.nameExpression: Invalid value: "requestInfo.name": 1:1: undeclared reference to 'requestInfo'; this expression sees trigger and object`}},
		"parent type": {"which has a name", parent("1 + 1"),
			[]string{`spec.target.parentContext.nameExpression: Invalid value: "1 + 1": 1:1: a name must be a string, not int`}},
		"parent empty": {"and one is wanted", parent(" "),
			[]string{`spec.target.parentContext.nameExpression: Required value: write a CEL expression that yields the name of the control plane`}},
		"parent long": {"in 512 characters", parent(strings.Repeat("x", 513)),
			[]string{`spec.target.parentContext.nameExpression: Too long: may not be more than 512 characters`}},
		"namespace": {"templates do not see the namespace", metadata(func(m *quotav1alpha1.ObjectTemplateMetadata) { m.Name = "a{{.namespaceObject.metadata.name}}" }),
			[]string{template + `metadata.name: Invalid value: "a{{.namespaceObject.metadata.name}}": 1:4: ` + notSeen("namespaceObject")}},
		"in a text first": {"the position is that of the variable, not of its name in a text", condition(`object.a == "user" ||` + "\n  user.name == object.a"),
			[]string{`spec.trigger.conditions[0].expression: Invalid value: "object.a == \"user\" ||\n  user.name == object.a": 2:3: ` + notSeen("user")}},
		"in a template's text first": {"in templates too", metadata(func(m *quotav1alpha1.ObjectTemplateMetadata) {
			m.Name = `namespaceObject-{{"namespaceObject"}}{{.namespaceObject.metadata.name}}`
		}), []string{template + `metadata.name: Invalid value: "namespaceObject-{{\"namespaceObject\"}}{{.namespaceObject.metadata.name}}": 1:40: ` + notSeen("namespaceObject")}},
		"template": {"a template that is none, with its position", metadata(func(m *quotav1alpha1.ObjectTemplateMetadata) { m.GenerateName = "{{.nobody}}" }),
			[]string{template + `metadata.generateName: Invalid value: "{{.nobody}}": 1:3: there is no .nobody; templates see .trigger, .object, .namespaceObject, .user and .requestInfo`}},
		"consumer": {"a grant goes to someone", func(p *quotav1alpha1.GrantCreationPolicy) {
			p.Spec.Target.ResourceGrantTemplate.Spec.ConsumerRef.Name = ""
		}, []string{template + `spec.consumerRef.name: Required value: nothing can be made without it`}},
		"resource type": {"types are fixed", func(p *quotav1alpha1.GrantCreationPolicy) {
			p.Spec.Target.ResourceGrantTemplate.Spec.Allowances[0].ResourceType = "{{.trigger.kind}}"
		}, []string{template + `spec.allowances[0].resourceType: Invalid value: "{{.trigger.kind}}": may not be a template: the registration of a resource type is checked before there are objects`}},
	} {
		t.Run(name, func(t *testing.T) {
			policy := validGrantPolicy()
			tc.change(policy)
			compiled, errs := CompileGrant(policy)
			if compiled != nil {
				t.Error("a policy with faults was compiled")
			}
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nfaults (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
