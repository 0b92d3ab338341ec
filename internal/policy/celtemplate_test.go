package policy

import (
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestTextsWithExpressions(t *testing.T) {
	for name, tc := range map[string]struct{ reason, source, want string }{
		"field":            {"an expression is replaced by its value", "{{trigger.metadata.name}}-claim", "Web-claim"},
		"spaces":           {"white space is no part of it", "secret-{{ trigger.metadata.name }}", "secret-Web"},
		"concatenation":    {"operators work", "{{trigger.metadata.name + '-claim'}}", "Web-claim"},
		"several":          {"there may be several", "{{object.metadata.namespace}}/{{requestInfo.name}}", "shop/Web"},
		"functions":        {"functions work", "{{trigger.metadata.name.lowerAscii()}}", "web"},
		"index":            {"keys with slashes", `{{trigger.metadata.labels["app.kubernetes.io/name"]}}`, "web"},
		"ternary":          {"conditions work", `{{trigger.spec.replicas > 2 ? "big" : "small"}}`, "big"},
		"braces in text":   {"braces within a string are no end", `{{"}}" + trigger.metadata.name}}`, "}}Web"},
		"escaped quote":    {"a quote within a string is no end", `{{"\"}}" + user.name}}`, `"}}jane`},
		"number":           {"numbers are written in full", "{{trigger.spec.replicas + 1}}", "4"},
		"boolean":          {"booleans are words", "{{trigger.spec.replicas == 3}}", "true"},
		"empty":            {"an empty expression is nothing", "a{{ }}b{{user.name}}", "abjane"},
		"has path":         {"a path of fields that may be missing", `{{trigger.has("spec.a.b") ? "yes" : trigger.has("metadata.name") ? "no" : ""}}`, "no"},
		"dot and CEL":      {"a leading dot is CEL too", "{{.trigger.metadata.name + '-x'}}", "Web-x"},
		"request":          {"the verb and the flag of the request", "{{requestInfo.verb}}", "create"},
		"groups":           {"lists of the user", `{{user.groups.exists(g, g == "ops") ? "ops" : "none"}}`, "ops"},
		"over two lines":   {"expressions may have several lines", "{{trigger.metadata.name\n + '-x'}}", "Web-x"},
		"quote in literal": {"quotes outside of expressions mean nothing", `it's {{trigger.metadata.name}}`, "it's Web"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reasons := renderText(tc.source, sample())
			if reasons != nil || got != tc.want {
				t.Errorf("%s: %s = %q, %q, want %q", tc.reason, tc.source, got, reasons, tc.want)
			}
		})
	}
}

func TestErrorsOfTextsWithExpressions(t *testing.T) {
	for name, tc := range map[string]struct{ reason, source, want string }{
		"unknown variable": {"the position is that in the text", "a-{{triger.metadata.name}}", "1:5: undeclared reference to 'triger'"},
		"second line":      {"lines count too", "a\nb{{ nope + 'x' }}", "2:5: undeclared reference to 'nope'"},
		"type":             {"lists cannot be printed", "{{[1]}}", "must yield a string, a number or a boolean"},
		"missing field":    {"a missing field is an error, never an empty text", "{{trigger.spec.nope + ''}}", "1:3: no such key: nope"},
		"object":           {"objects cannot be printed", "{{trigger.metadata + ''}}", "no such overload"},
		"an object":        {"objects cannot be printed", "{{true ? trigger.metadata : ''}}", "it yields map, not a string"},
		"neither":          {"what is no CEL is a Go template", "{{lowr .trigger.metadata.name}}", "there is no function lowr"},
		"dots":             {"chains that begin with a dot are fields of a Go template", "{{.triger.metadata.name}}", "there is no .triger"},
		"open":             {"braces have to end", "{{trigger.metadata.name", "line 1: unclosed action"},
		"too long":         {"expressions are bounded", "{{" + strings.Repeat("'a' + ", 200) + "'a'}}", "1:3: an expression may not be longer than 1024 characters"},
		"too much":         {"texts are bounded", "{{trigger.spec.ratio}}{{'" + strings.Repeat("a", 300) + "' + ''}}", "the text is longer than 253 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, reasons := renderText(tc.source, sample())
			if len(reasons) == 0 || !strings.Contains(strings.Join(reasons, "; "), tc.want) {
				t.Errorf("%s: %s: got %q, want %q", tc.reason, tc.source, reasons, tc.want)
			}
		})
	}
}

// Variables in expressions have the same consequences as in Go templates.
func TestUsesOfExpressions(t *testing.T) {
	p := requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "size", Amount: 1})
	p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = "{{namespaceObject.metadata.name + user.name}}"
	compiled, errs := Compile(p)
	if len(errs) > 0 || !compiled.UsesRequest() || !compiled.UsesNamespace() {
		t.Errorf("uses of the request and the namespace are unknown: %v", errs)
	}
	p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
	if _, errs := Compile(p); !strings.Contains(errs.ToAggregate().Error(), "may not use user here") {
		t.Errorf("a policy that follows updates may use the user: %v", errs)
	}
	p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = "{{trigger.spec.payer}}"
	if warnings := PayerFromObject(p); len(warnings) != 1 || !strings.Contains(warnings[0], "trigger.spec.payer") {
		t.Errorf("no warning of a consumer from the object: %q", warnings)
	}
}

// Constraints are conditions under another name.
func TestConstraints(t *testing.T) {
	p := requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "size", Amount: 1})
	p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "trigger.spec.replicas == 3"}}
	p.Spec.Trigger.Constraints = []quotav1alpha1.ConditionExpression{{Expression: "trigger.metadata.name == 'Web'"}}
	compiled, errs := Compile(p)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for name, want := range map[string]bool{"Web": true, "other": false} {
		in := sample()
		in.Object["metadata"].(map[string]any)["name"] = name
		if got, err := compiled.Matches(t.Context(), in); got != want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	p.Spec.Trigger.Constraints[0].Expression = "nope"
	if _, errs := Compile(p); !strings.Contains(errs.ToAggregate().Error(), "spec.trigger.constraints[0].expression") {
		t.Errorf("the constraint is not named: %v", errs)
	}
	for range 9 {
		p.Spec.Trigger.Constraints = append(p.Spec.Trigger.Constraints, p.Spec.Trigger.Constraints[0])
	}
	if _, errs := Compile(p); !strings.Contains(errs.ToAggregate().Error(), "must have at most 10 items") {
		t.Errorf("11 conditions are accepted: %v", errs)
	}
}

// Without a consumer in the template, the parent of the user's control plane pays.
func TestParentPays(t *testing.T) {
	p := requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "size", Amount: 1})
	p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{}
	compiled, errs := Compile(p)
	if len(errs) > 0 || !compiled.UsesRequest() {
		t.Fatal("the policy depends on who creates the object", errs)
	}
	in := sample()
	if _, err := compiled.Render(t.Context(), in); err == nil || !strings.Contains(err.Error(), "user.extra has no iam.miloapis.com/parent-type") {
		t.Errorf("got %v, want an error that names the missing values", err)
	}
	in.User.Extra = map[string][]string{parentGroupKey: {"resourcemanager.miloapis.com"}, parentKindKey: {"Project"}, parentNameKey: {"web"}}
	claim, err := compiled.Render(t.Context(), in)
	want := quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Name: "web"}
	if err != nil || claim.Spec.ConsumerRef != want {
		t.Errorf("got %+v, %v", claim, err)
	}
	in.User.Extra[parentNameKey] = []string{"../web"}
	if _, err := compiled.Render(t.Context(), in); err == nil {
		t.Error("a name that no object can have pays")
	}
	p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
	if _, errs := Compile(p); !strings.Contains(errs.ToAggregate().Error(), "names the consumer") {
		t.Errorf("a policy that follows updates names no consumer: %v", errs)
	}
}
